//! An analyst who has ClickHouse's password and tries to read more than events.

use super::context::AttackContext;
use crate::attack::http::{Outcome, request};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Statements that try to leave the database. `DIR` is the server's folder, `PID` its process.
const OUT: [&str; 25] = [
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM file('DIR/credentials.json', 'RawBLOB')",
    "SELECT file('DIR/secret.key')",
    "SELECT * FROM file('/proc/self/environ', 'RawBLOB')",
    "SELECT file('/proc/PID/environ')",
    "SELECT `fi\\x6ce`('/proc/self/environ')",
    "SELECT * APPLY(file) FROM (SELECT 'DIR/catalog.db' AS a)",
    "SELECT * FROM format(JSONEachRow, 'a UInt8, b String DEFAULT file(''DIR/catalog.db'')', '{\"a\":1}')",
    "SELECT * FROM format(Values, 'a String', (SELECT concat('(fi', 'le(''DIR/catalog.db''))')))",
    "WITH concat('a UInt8, b String ALIAS fi', 'le(''DIR/catalog.db'')') AS s SELECT b FROM values(s, (1))",
    "SELECT * FROM sqlite('DIR/catalog.db', 'personal_api_keys')",
    "INSERT INTO FUNCTION sqlite('DIR/catalog.db', 'personal_api_keys') SELECT 1",
    "CREATE DATABASE out_sqlite ENGINE = SQLite('DIR/catalog.db')",
    "INSERT INTO FUNCTION file('DIR/out', 'TSV') SELECT 1",
    "SELECT 1 INTO OUTFILE 'DIR/out'",
    "SELECT * FROM url('http://127.0.0.1:9/', 'LineAsString')",
    "SELECT * FROM s3('http://127.0.0.1:9/bucket/key')",
    "SELECT * FROM remote('127.0.0.1:9', system.one)",
    "SELECT * FROM executable('x', 'TSV', 'a String')",
    "CREATE DICTIONARY out_d (a String) PRIMARY KEY a SOURCE(FILE(path 'DIR/catalog.db' format 'TSV')) \
     LAYOUT(FLAT()) LIFETIME(0)",
    "CREATE USER hostile",
    "GRANT ALL ON *.* TO default",
    "SYSTEM SHUTDOWN",
    "BACKUP DATABASE default TO File('DIR/backup')",
    "SELECT 1 SETTINGS format_template_row = 'DIR/catalog.db' FORMAT Template",
];
/// Texts that no response may contain.
const CANARIES: [&str; 4] = ["phx_", "SQLite format", "root:x:", "clickhouse_password"];
/// Allowed queries that cost something.
const READS: [&str; 3] = [
    "SELECT event, count() FROM millrace.events GROUP BY event",
    "SELECT uniqExact(distinct_id), max(length(properties)) FROM millrace.events",
    "SELECT count() FROM millrace.events_with_persons WHERE person_properties LIKE '%p1%'",
];
/// Number of unfinished request heads: a tenth of the connections that there are.
const UNFINISHED: usize = 100;
const HEAD_BYTES: usize = 60 << 10;
const HELD: Duration = Duration::from_secs(15);

impl AttackContext {
    async fn query(&self, method: &str, path: &str, sql: &str) -> Outcome {
        let login = format!("{}:{}", self.clickhouse.user, self.clickhouse.password);
        let login = format!("Basic {}", BASE64_STANDARD.encode(login));
        let sent = request(method, path, &[("Authorization", &login)], sql.as_bytes());
        self.analyst.send(&sent).await
    }
}

/// Sends statements that must all be refused, without a secret in the refusal.
pub(super) async fn statements(context: Arc<AttackContext>) {
    let dir = context.data_dir.display().to_string();
    loop {
        for sql in OUT {
            let sql = sql
                .replace("DIR", &dir)
                .replace("PID", &context.pid.to_string());
            let outcome = context.query("POST", "/", &sql).await;
            check(&context, &sql, &outcome);
            sleep(context.pause * 5).await;
        }
        // A link or an image can send a GET with a login that the browser saved.
        let path = "/?query=DROP%20TABLE%20millrace.events&readonly=0";
        let outcome = context.query("GET", path, "").await;
        check(&context, "DROP by GET", &outcome);
    }
}

/// Records an outcome. ClickHouse refuses some statements with 500, so only a success or a leaked
/// secret is a violation.
fn check(context: &AttackContext, sql: &str, outcome: &Outcome) {
    let text = outcome.text();
    context
        .findings
        .count("statements that leave the database", &refusal(outcome));
    let is_leak = CANARIES.iter().any(|canary| text.contains(canary));
    if outcome.status() == 200 || is_leak {
        context.findings.wrong(format!(
            "{sql}: {outcome} {}",
            text.chars().take(100).collect::<String>()
        ));
    }
}

/// ClickHouse's error code of a refusal, or the outcome if there is no code.
fn refusal(outcome: &Outcome) -> String {
    let text = outcome.text().trim_start();
    let code = text.strip_prefix("Code: ");
    let code = code.and_then(|text| text.split_once('.'));
    match code {
        Some((code, _)) if code.bytes().all(|byte| byte.is_ascii_digit()) => format!("code {code}"),
        _ => outcome.to_string(),
    }
}

/// Sends moderate queries. Their cost is not bounded, as `deploy/THREATS.md` says.
pub(super) async fn reads(context: Arc<AttackContext>) {
    loop {
        for sql in READS {
            let outcome = context.query("POST", "/", sql).await;
            // ClickHouse refuses a query that takes too long or too much memory with 500.
            context
                .findings
                .count("reads of an analyst", &outcome.to_string());
            sleep(context.pause * 50).await;
        }
    }
}

/// Sends request heads without an end and without a password.
pub(super) async fn unfinished(context: Arc<AttackContext>) {
    let head = format!("GET /?query={}", "x".repeat(HEAD_BYTES));
    loop {
        let mut held = Vec::new();
        for _ in 0..UNFINISHED {
            if let Ok(mut stream) = context.analyst.connect().await
                && stream.write_all(head.as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        context.findings.count(
            "unfinished heads to ClickHouse",
            &format!("{} at once", held.len()),
        );
        sleep(HELD).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_counted_by_its_code() {
        for (body, told) in [
            (
                "Code: 497. DB::Exception: default: Not enough privileges.",
                "code 497",
            ),
            ("Code: x. y", "500"),
            ("no code", "500"),
        ] {
            let outcome = Outcome::Response {
                status: 500,
                body: body.to_owned(),
            };
            assert_eq!(refusal(&outcome), told);
        }
        assert_eq!(refusal(&Outcome::Late), "late");
    }
}
