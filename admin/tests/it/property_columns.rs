//! Property columns through the API: what is answered, what is refused, and versions.

use crate::Fixture;
use millrace_catalog::{Actor, PropertyColumnType};
use millrace_organizations::{NewPropertyColumn, PropertyColumns};
use serde_json::{Value, json};

on_both!(
    columns_are_answered_as_they_were_sent,
    a_malformed_column_is_refused_with_its_place,
    a_list_of_another_version_is_refused,
    a_column_that_is_made_is_not_pending_and_no_other_version,
);

const ONE: &str = "/api/projects/@current/property_columns/";

async fn patch(fixture: &Fixture, columns: &Value) -> (u16, Value) {
    let body = json!({ "columns": columns });
    let answer = fixture.call("PATCH", ONE, &body).await;
    (answer.status, answer.body)
}

async fn columns_are_answered_as_they_were_sent() {
    let fixture = Fixture::new().await;
    let none = fixture.get(ONE).await.body;
    assert_eq!(none["columns"], json!([]));
    assert_eq!(
        (&none["columns_max"], &none["bytes_max"]),
        (&json!(20), &json!(4_096))
    );
    let shared = NewPropertyColumn {
        path: vec!["$browser".to_owned()],
        kind: PropertyColumnType::LowCardinality,
        bytes_max: Some(40),
    };
    let by = Actor::command_line();
    let shared = PropertyColumns::new(&fixture.catalog).add_as_operator(&by, None, shared);
    shared.await.unwrap();
    let sent = json!([
        { "path": ["plan"], "type": "String", "bytes_max": null },
        { "path": ["$set", "a.b c"], "type": "Float64" },
    ]);
    let (status, body) = patch(&fixture, &sent).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["bytes"], 256 + 9);
    assert_eq!(body["columns"][0]["bytes_max"], 256);
    assert_eq!(body["columns"][1]["path"], json!(["$set", "a.b c"]));
    assert_eq!(body["columns"][1]["bytes_max"], Value::Null);
    assert_eq!(body["shared_columns"][0]["path"], json!(["$browser"]));
    let names: Vec<&Value> = ["columns", "shared_columns"]
        .iter()
        .flat_map(|list| body[*list].as_array().unwrap())
        .map(|column| &column["name"])
        .collect();
    assert_eq!(body["pending"], json!(names));
    assert_eq!(fixture.get(ONE).await.body, body);
    // What was answered can be sent.
    assert_eq!(patch(&fixture, &body["columns"]).await, (200, body.clone()));
    let unchanged = fixture.call("PATCH", ONE, &json!({})).await;
    assert_eq!(unchanged.body, body);
    let lacking = fixture.call("PUT", ONE, &json!({})).await;
    assert_eq!(lacking.error(), (400, "required", Some("columns")));
}

async fn a_malformed_column_is_refused_with_its_place() {
    let fixture = Fixture::new().await;
    let good = json!({ "path": ["a"], "type": "Bool" });
    let table = [
        (json!({ "path": [], "type": "Bool" }), "columns__1__path"),
        (
            json!({ "path": [""], "type": "Bool" }),
            "columns__1__path__0",
        ),
        (json!({ "path": "b", "type": "Bool" }), "columns__1__path"),
        (
            json!({ "path": ["b"], "type": "Int32" }),
            "columns__1__type",
        ),
        (json!({ "path": ["b"] }), "columns__1__type"),
        (
            json!({ "path": ["b"], "type": "Bool", "bytes_max": 3 }),
            "columns__1__bytes_max",
        ),
        (
            json!({ "path": ["b"], "type": "String", "bytes_max": 0 }),
            "columns__1__bytes_max",
        ),
        (
            json!({ "path": ["b"], "type": "String", "bytes_max": 2_049 }),
            "columns__1__bytes_max",
        ),
        (good.clone(), "columns__1__path"),
    ];
    for (column, attr) in table {
        let body = json!({ "columns": [good, column] });
        let answer = fixture.call("PATCH", ONE, &body).await;
        let (status, _, found) = answer.error();
        assert_eq!((status, found), (400, Some(attr)), "{body}: {answer:?}");
    }
    assert_eq!(fixture.get(ONE).await.body["columns"], json!([]));
}

async fn a_list_of_another_version_is_refused() {
    let fixture = Fixture::new().await;
    let bearer = format!("Bearer {}", fixture.owner_key());
    let old = fixture.get(ONE).await.header("etag").to_owned();
    for (type_, tag, status) in [("Bool", &old, 200), ("Int64", &old, 412)] {
        let headers = [
            ("authorization", bearer.as_str()),
            ("if-match", tag.as_str()),
        ];
        let body = json!({ "columns": [{ "path": ["a"], "type": type_ }] }).to_string();
        let answer = fixture
            .request("PATCH", ONE, &headers, body.as_bytes())
            .await;
        assert_eq!(answer.status, status, "{answer:?}");
        if status == 200 {
            let now = fixture.get(ONE).await;
            assert_eq!(answer.header("etag"), now.header("etag"));
            assert_ne!(now.header("etag"), old);
        }
    }
}

async fn a_column_that_is_made_is_not_pending_and_no_other_version() {
    let fixture = Fixture::new().await;
    let sent = json!([{ "path": ["a"], "type": "Bool" }]);
    assert_eq!(patch(&fixture, &sent).await.0, 200);
    let before = fixture.get(ONE).await;
    assert_eq!(before.body["pending"].as_array().unwrap().len(), 1);
    let columns = PropertyColumns::new(&fixture.catalog);
    let made = columns.list_all().await.unwrap();
    columns.mark(&[made[0].id], true).await.unwrap();
    let after = fixture.get(ONE).await;
    assert_eq!(after.body["pending"], json!([]));
    assert_eq!(after.header("etag"), before.header("etag"));
}
