//! Queries of exports: stored with their columns, or refused.

use super::{ORGANIZATION, export, new_export};
use crate::Fixture;
use serde_json::{Value, json};

on_both!(
    a_query_is_kept_with_its_columns,
    a_query_beyond_the_exported_tables_is_refused,
);

async fn a_query_is_kept_with_its_columns() {
    let fixture = Fixture::new().await;
    let text = "SELECT uuid, toDate(timestamp) AS day FROM events WHERE event = 'a'";
    let mut new = new_export();
    new["hogql_query"] = json!(text);
    let made = super::made(&fixture, ORGANIZATION, &new).await.body;
    assert_eq!(made["hogql_query"], text);
    let fields = json!([
        { "expression": "uuid", "alias": "uuid" },
        { "expression": "toDate(timestamp)", "alias": "day" },
    ]);
    assert_eq!(
        made["schema"],
        json!({ "fields": fields, "values": {}, "hogql_query": text })
    );
    let path = format!("{ORGANIZATION}{}/", made["id"].as_str().unwrap());
    let cleared = fixture
        .call("PATCH", &path, &json!({ "hogql_query": null }))
        .await;
    assert_eq!(
        (cleared.status, &cleared.body["schema"]),
        (200, &Value::Null)
    );
    assert_eq!(cleared.body["hogql_query"], Value::Null);
}

async fn a_query_beyond_the_exported_tables_is_refused() {
    let fixture = Fixture::new().await;
    let (_, path) = export(&fixture, ORGANIZATION).await;
    for text in [
        "SELECT 1",
        "SELECT * FROM millrace.events",
        "SELECT * FROM events FORMAT CSV",
        "SELECT * FROM file('x')",
        "SELECT dictGet('a', 'b', 1) FROM events",
        "SELECT * FROM events UNION ALL SELECT * FROM events",
        "SELECT * FROM events; DROP TABLE events",
        "nonsense",
    ] {
        let body = json!({ "hogql_query": text });
        let answer = fixture.call("PATCH", &path, &body).await;
        assert_eq!(
            answer.error(),
            (400, "invalid_input", Some("hogql_query")),
            "{text}"
        );
        assert!(!answer.body["detail"].as_str().unwrap().is_empty());
    }
}
