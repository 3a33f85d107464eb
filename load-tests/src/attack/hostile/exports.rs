//! Exports that cost as much as they may: queries, servers that hang, folders of other people.

use super::{Arsenal, EXPORT_FOLDER};
use crate::attack::http::Outcome;
use crate::attack::tenants::text;
use anyhow::{Context, Result};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Exports that are kept before they are deleted again.
const KEPT: usize = 8;

/// A server on this machine that takes connections and never says a word.
pub(super) async fn hanging_server() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.context("cannot listen")?;
    let address = listener.local_addr().context("cannot listen")?;
    tokio::task::spawn_local(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    Ok(address)
}

/// Queries that are as costly as they get, into the folder that somebody else exports to.
pub(super) async fn queries(arsenal: Arc<Arsenal>, mut rng: StdRng) {
    let matched: Vec<String> = (0..20)
        .map(|number| format!("match(properties, 'a[ab]{{{}}}c')", 280 + number))
        .collect();
    let queries = [
        format!("SELECT uuid FROM events WHERE {}", matched.join(" AND ")),
        "SELECT uuid FROM events WHERE match(properties, '(a+)+$') OR properties LIKE '%a%b%c%d%'"
            .to_owned(),
        "SELECT distinct_id, count() FROM events GROUP BY distinct_id ORDER BY distinct_id"
            .to_owned(),
        "SELECT a.uuid FROM events AS a JOIN events AS b ON a.event = b.event".to_owned(),
        format!(
            "SELECT {} FROM events",
            vec!["lower(properties)"; 900].join(", ")
        ),
    ];
    loop {
        for query in &queries {
            let path = if rng.random() {
                EXPORT_FOLDER
            } else {
                "../out"
            };
            let destination = json!({"type": "FileSystem", "config": {"path": path}});
            let new = json!({"name": "Costly", "interval": "every 5 minutes",
                "destination": destination, "hogql_query": query});
            export(&arsenal, "costly exports", &new).await;
        }
        clear(&arsenal, KEPT).await;
    }
}

/// Destinations that take a connection and say nothing.
pub(super) async fn hanging(arsenal: Arc<Arsenal>, hung: SocketAddr) {
    let (host, port) = (hung.ip().to_string(), hung.port());
    let destinations = [
        json!({"type": "HTTP", "config": {"url": format!("http://{hung}/batch/"), "token": "t"}}),
        json!({"type": "Postgres", "config": {"user": "u", "password": "p", "host": host, "port": port,
            "database": "d", "table_name": "t"}}),
        json!({"type": "S3", "config": {"bucket_name": "bucket", "region": "eu-central-1", "prefix": "p",
            "aws_access_key_id": "a", "aws_secret_access_key": "b",
            "endpoint_url": format!("http://{hung}")}}),
    ];
    loop {
        for destination in &destinations {
            let new = json!({"name": "Hanging", "interval": "every 5 minutes", "destination": destination});
            export(&arsenal, "exports to servers that hang", &new).await;
            let test = arsenal
                .tenants
                .hostile
                .ask("POST", "batch_exports/test/", &new);
            let outcome = test.await;
            arsenal
                .tally
                .note("tests of destinations that hang", &outcome);
        }
        clear(&arsenal, KEPT).await;
    }
}

/// Makes an export and has it export everything there is.
async fn export(arsenal: &Arsenal, what: &str, new: &Value) {
    let hostile = &arsenal.tenants.hostile;
    let made = hostile.ask("POST", "batch_exports/", new).await;
    arsenal.tally.note(what, &made);
    if let Some(id) = text(&made.json(), "/id") {
        let path = format!("batch_exports/{id}/backfill/");
        let backfilled = hostile.ask("POST", &path, &json!({})).await;
        arsenal.tally.note("backfills of everything", &backfilled);
    }
    sleep(arsenal.pause * 20).await;
}

/// Deletes the oldest exports, down to so many.
pub(super) async fn clear(arsenal: &Arsenal, kept: usize) {
    let hostile = &arsenal.tenants.hostile;
    let listed = hostile
        .ask("GET", "batch_exports/?limit=200", &Value::Null)
        .await;
    let json = listed.json();
    let results = json.pointer("/results").and_then(Value::as_array);
    let ids = results
        .into_iter()
        .flatten()
        .filter_map(|it| text(it, "/id"));
    let ids: Vec<String> = ids.collect();
    let beyond = ids.len().saturating_sub(kept);
    for id in ids.iter().take(beyond) {
        let path = format!("batch_exports/{id}/");
        let deleted: Outcome = hostile.ask("DELETE", &path, &Value::Null).await;
        arsenal.tally.note("deleted exports", &deleted);
    }
}
