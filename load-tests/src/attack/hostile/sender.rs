//! What a project's key allows, which stands in the source of every page.

use super::capture::mutated;
use super::{Arsenal, HOSTILE_TEXT};
use crate::attack::http::request;
use rand::RngExt;
use rand::distr::{Alphanumeric, SampleString};
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Months of a request: more than a project may begin at once, and as many as it may.
const MONTHS: [i32; 2] = [684, 100];
const MONTHS_A_YEAR: i32 = 12;
/// Persons that a request makes up.
const PERSONS: usize = 1_000;
/// Longest body that is taken, and one beyond.
const BODY_BYTES: [usize; 2] = [20 << 20, (20 << 20) + 1];
/// An event that is larger than events may be.
const EVENT_BYTES: usize = 1_100_000;
/// Events of a large body.
const LARGE_EVENT_BYTES: usize = 50_000;
/// Bodies that dribble, and how fast.
const SLOW: usize = 50;
const DRIBBLE: Duration = Duration::from_millis(500);
const DRIBBLES: usize = 60;

async fn post(arsenal: &Arsenal, what: &str, body: &Value) {
    let sent = request("POST", "/batch/", &[], body.to_string().as_bytes());
    let outcome = arsenal.sender.send(&sent).await;
    arsenal.tally.note(what, &outcome);
}

fn batch(arsenal: &Arsenal, events: &[Value]) -> Value {
    json!({"api_key": arsenal.tenants.hostile.project_key, "batch": events})
}

/// Bodies that decode to just less than a known key may have them decode to.
pub(super) async fn bombs(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let at = rng.random_range(0..arsenal.bombs_with_key.len().max(1));
        if let Some(bomb) = arsenal.bombs_with_key.get(at) {
            let outcome = arsenal.sender.send(&bomb.request("/batch/")).await;
            let way = format!("{}: {outcome}", bomb.way);
            arsenal.tally.count("bombs with a key, by encoding", &way);
            arsenal.tally.note("bombs with a key", &outcome);
        }
        sleep(arsenal.pause * 10).await;
    }
}

/// Bodies near those that a fuzzer kept, with a key that is known.
pub(super) async fn mutations(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let key = &arsenal.tenants.hostile.project_key;
        let body = arsenal.corpus.next(key, &mut rng);
        let outcome = arsenal.sender.send(&mutated(&body, &mut rng)).await;
        arsenal.tally.note("mutated bodies with a key", &outcome);
        sleep(arsenal.pause).await;
    }
}

/// Events of hundreds of months.
pub(super) async fn months(arsenal: Arc<Arsenal>) {
    for months in MONTHS.into_iter().cycle() {
        let events: Vec<Value> = (0..months)
            .map(|month| {
                let (year, month) = (1970 + month / MONTHS_A_YEAR, month % MONTHS_A_YEAR + 1);
                let timestamp = format!("{year}-{month:02}-01T00:00:00Z");
                json!({"event": "old", "distinct_id": "h", "timestamp": timestamp})
            })
            .collect();
        post(&arsenal, "months", &batch(&arsenal, &events)).await;
        sleep(arsenal.pause * 10).await;
    }
}

/// Persons that nobody ever was, with a property that is another one each time.
pub(super) async fn persons(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    loop {
        let events: Vec<Value> = (0..PERSONS)
            .map(|_| {
                let id: u64 = rng.random();
                let set = json!({format!("p{}", id % 100): id});
                json!({"event": "$set", "distinct_id": format!("made up {id}"), "$set": set})
            })
            .collect();
        post(&arsenal, "made-up persons", &batch(&arsenal, &events)).await;
        sleep(arsenal.pause * 10).await;
    }
}

/// The longest bodies there may be, with events and with one that is too large.
pub(super) async fn large(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    let key = &arsenal.tenants.hostile.project_key;
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
            let outcome = arsenal.sender.send(&sent).await;
            arsenal.tally.note("bodies of 20 MiB", &outcome);
            sleep(arsenal.pause * 50).await;
        }
        let large =
            json!({"event": "l", "distinct_id": "h", "properties": {"t": "x".repeat(EVENT_BYTES)}});
        post(&arsenal, "too large events", &batch(&arsenal, &[large])).await;
    }
}

/// Bodies that come a byte at a time.
pub(super) async fn slow(arsenal: Arc<Arsenal>) {
    let key = &arsenal.tenants.hostile.project_key;
    let head =
        format!("POST /batch/?token={key} HTTP/1.1\r\nHost: t\r\nContent-Length: 20000000\r\n\r\n");
    loop {
        let mut held = Vec::new();
        for _ in 0..SLOW {
            if let Ok(mut stream) = arsenal.sender.connect().await
                && stream.write_all(head.as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        arsenal
            .tally
            .count("slow bodies", &format!("{} at once", held.len()));
        for _ in 0..DRIBBLES {
            for stream in &mut held {
                // Who was told that it is too slow is closed.
                drop(stream.write_all(b" ").await);
            }
            sleep(DRIBBLE).await;
        }
    }
}

/// Names and values that a terminal would follow; those without an id are kept for the operator to read.
pub(super) async fn texts(arsenal: Arc<Arsenal>) {
    loop {
        let events = [
            json!({"event": HOSTILE_TEXT, "distinct_id": HOSTILE_TEXT, "properties": {HOSTILE_TEXT: HOSTILE_TEXT}}),
            json!({"event": HOSTILE_TEXT, "properties": {HOSTILE_TEXT: HOSTILE_TEXT}}),
        ];
        post(
            &arsenal,
            "hostile texts in events",
            &batch(&arsenal, &events),
        )
        .await;
        sleep(arsenal.pause * 50).await;
    }
}
