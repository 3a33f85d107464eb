//! A row that the table refuses among others that it takes.

use super::stand::Stand;
use serde_json::{Value, json};

#[test]
fn a_bad_row_is_set_aside_with_its_reason_and_keeps_nobody_waiting() {
    let stand = Stand::start(&[]);
    stand
        .engine
        .query("ALTER TABLE millrace.events ADD CONSTRAINT good CHECK event != 'bad'");
    let event = |number: u32| {
        let name = if number == 17 { "bad" } else { "good" };
        json!({"event": name, "distinct_id": format!("user-{number}")})
    };
    let batch: Vec<Value> = (0..100).map(event).collect();
    stand.server.capture(&json!(batch));
    stand.server.wait_for(
        "SELECT count(), uniqExact(uuid) FROM millrace.events",
        "99\t99",
    );
    let files = std::fs::read_dir(stand.dir.path().join("ingest/poison/live")).unwrap();
    let labels: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    assert_eq!(labels.len(), 1, "{labels:?}");
    let label: Value = serde_json::from_slice(&std::fs::read(&labels[0]).unwrap()).unwrap();
    assert_eq!(
        (&label["rows"], &label["clickhouse_code"]),
        (&json!(1), &json!(469))
    );
    let row = std::fs::read(labels[0].with_extension("rowbinary")).unwrap();
    let holds = |text: &[u8]| row.windows(text.len()).any(|window| window == text);
    assert!(holds(b"bad") && holds(b"user-17"), "{row:?}");
    // What comes after is none the worse.
    stand.server.capture(&json!([event(18)]));
    stand
        .server
        .wait_for("SELECT count() FROM millrace.events", "100");
}
