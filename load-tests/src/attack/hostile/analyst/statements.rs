//! Statements that try to leave the database, or to change it by a link of any page.

use super::{AttackContext, answer};
use crate::attack::http::Outcome;
use std::sync::Arc;
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
/// Sends statements that must all be refused, without a secret in the refusal.
pub(in crate::attack::hostile) async fn all(context: Arc<AttackContext>) {
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
        .count("statements that leave the database", &answer(outcome));
    let is_leak = CANARIES.iter().any(|canary| text.contains(canary));
    if outcome.status() == 200 || is_leak {
        context.findings.wrong(format!(
            "{sql}: {outcome} {}",
            text.chars().take(100).collect::<String>()
        ));
    }
}
