//! Attacks with a key of the organization API: plugin sources, records up to every limit, lists.

use super::context::AttackContext;
use crate::attack::cost_search::any;
use crate::attack::hostile_text::HOSTILE_TEXT;
use crate::attack::tenants::text;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

/// Pieces of source code that cost a parser time, memory or stack.
const PIECES: [&str; 10] = [
    "x?(y):z=>",
    "a<b<c>>(",
    "(a,b)=>",
    "(",
    "[",
    "{a:",
    "`${",
    "async(",
    "a?b:",
    "/*",
];
/// Bytes of a source, in turn. The short one is parsed even on a machine too slow for the long one.
const SOURCE_BYTES: [usize; 2] = [9_000, 900_000];
/// Bytes of a record's free-form fields, up to the limit.
const FIELD_BYTES: usize = 60_000;
/// Connections that request a list and never read it; they are held for `HELD`.
const READERS: usize = 24;
const HELD: Duration = Duration::from_secs(20);

/// Uploads plugin sources that overflow a parser's stack.
pub(super) async fn sources(context: Arc<AttackContext>, mut rng: StdRng) {
    let hostile = &context.tenants.hostile;
    for bytes in SOURCE_BYTES.into_iter().cycle() {
        let new = json!({"plugin_type": "source", "name": "P"});
        let made = hostile.ask("POST", "plugins/", &new).await;
        context.findings.note("plugins", &made);
        let id = made.json().pointer("/id").and_then(Value::as_i64);
        if let Some(id) = id {
            let piece = any(&PIECES, &mut rng);
            let source = json!({"index.ts": piece.repeat(bytes / piece.len())});
            let path = format!("plugins/{id}/update_source/");
            let changed = hostile.ask("PATCH", &path, &source).await;
            context
                .findings
                .note("sources that break parsers", &changed);
            let path = format!("plugins/{id}/");
            let deleted = hostile.ask("DELETE", &path, &Value::Null);
            context.findings.note("plugins", &deleted.await);
        }
        sleep(context.pause * 10).await;
    }
}

/// Creates records up to the limits of size and number, and records with names that must be
/// refused.
pub(super) async fn records(context: Arc<AttackContext>, mut rng: StdRng) {
    let hostile = &context.tenants.hostile;
    loop {
        let number: u64 = rng.random();
        let name = format!("n{number}");
        let long = "x".repeat(FIELD_BYTES);
        let names = vec!["e".repeat(60); FIELD_BYTES / 70];
        let destination =
            |events: &[String]| json!({"type": "NoOp", "config": {"include_events": events}});
        for (path, body) in [
            ("roles/", json!({"name": name})),
            (
                "invites/",
                json!({"target_email": format!("{name}@example.com"), "send_email": false}),
            ),
            ("projects/", json!({"name": name})),
            ("domains/", json!({"domain": format!("{name}.example.com")})),
            (
                "proxy_records/",
                json!({"domain": format!("{name}.example.com")}),
            ),
            (
                "plugins/",
                json!({"plugin_type": "source", "name": name, "config_schema": [long]}),
            ),
            (
                "batch_exports/",
                json!({"name": name, "interval": "hour", "paused": true,
                "destination": destination(&names)}),
            ),
        ] {
            let made = hostile.ask("POST", path, &body).await;
            context.findings.note(&format!("made up: {path}"), &made);
            hostile_names(&context, path, &body).await;
            sleep(context.pause * 5).await;
        }
        let listed = hostile.ask("GET", "invites/?limit=100", &Value::Null).await;
        context.findings.note("made up: list of invites", &listed);
        let listed = listed.json();
        let made = listed.pointer("/results").and_then(Value::as_array);
        if let Some(id) = made.and_then(|made| text(made.last()?, "/id")) {
            let path = format!("invites/{id}/");
            let deleted = hostile.ask("DELETE", &path, &Value::Null);
            context
                .findings
                .note("made up: withdrawn invites", &deleted.await);
        }
    }
}

/// Sends the record with terminal control characters in each text field in turn.
async fn hostile_names(context: &AttackContext, path: &str, body: &Value) {
    let fields = body.as_object().into_iter().flatten();
    for (field, _) in fields.filter(|(_, value)| value.is_string()) {
        let mut named = body.clone();
        if let Some(value) = named.get_mut(field) {
            *value = Value::from(HOSTILE_TEXT);
        }
        let refused = context.tenants.hostile.ask("POST", path, &named).await;
        context
            .findings
            .note_among("hostile texts in names", &refused, &[400]);
    }
}

/// Requests lists and does not read them.
pub(super) async fn unread_lists(context: Arc<AttackContext>) {
    let hostile = &context.tenants.hostile;
    let lists = [
        "batch_exports/?limit=200",
        "plugins/?limit=500",
        "activity/?limit=500",
    ];
    loop {
        let mut held = Vec::new();
        for list in lists.into_iter().cycle().take(READERS) {
            let request = format!(
                "GET /api/organizations/{}/{list} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer {}\r\n\r\n",
                hostile.organization,
                hostile.key()
            );
            if let Ok(mut stream) = hostile.connect().await
                && stream.write_all(request.repeat(4).as_bytes()).await.is_ok()
            {
                held.push(stream);
            }
        }
        context.findings.count(
            "lists that nobody reads",
            &format!("{} at once", held.len()),
        );
        sleep(HELD).await;
    }
}

/// Sends requests with made-up keys.
pub(super) async fn wrong_keys(context: Arc<AttackContext>, mut rng: StdRng) {
    let organization = &context.tenants.hostile.organization;
    let path = format!("/api/organizations/{organization}/members/");
    loop {
        let key = format!("phx_{:043}", rng.random::<u64>());
        let tried = context.guesser.call("GET", &path, &key, &Value::Null);
        let tried = tried.await;
        context.findings.note_among("wrong keys", &tried, &[401]);
        sleep(context.pause * 5).await;
    }
}
