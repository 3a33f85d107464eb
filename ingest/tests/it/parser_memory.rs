//! Memory of parsers of large bodies: reserved before it is taken, and given back.

use crate::test_env::{KEY, TestEnv};
use serde_json::json;

/// Events of the body; each is well below the limit of one.
const EVENTS: usize = 6;
const VALUE_BYTES: usize = 150_000;

/// Body above 512 KiB, whose events have a property with this value as JSON.
fn body(value: &str) -> String {
    let event = json!({"event": "e", "distinct_id": "d", "properties": {"value": "?"}});
    let event = event.to_string().replace("\"?\"", value);
    let events = vec![event; EVENTS].join(",");
    format!(r#"{{"api_key":"{KEY}","batch":[{events}]}}"#)
}

#[test]
fn a_body_whose_parser_needs_more_memory_than_all_may_have_is_413() {
    // Parsers have half as much as bodies: 4 MiB.
    let env = TestEnv::with(|options| options.server.limits.in_flight_bytes_max = 8 << 20);
    let text = body(&format!("\"{}\"", "a".repeat(VALUE_BYTES)));
    let list = body(&format!("[{}1]", "1,".repeat(VALUE_BYTES / 2)));
    assert!(
        text.len().abs_diff(list.len()) < 100,
        "as long as the other"
    );
    for round in 0..3 {
        let refused = env.post("/batch/", &list);
        let refused = (refused.status, refused.code());
        assert_eq!(refused, (413, "body_too_complex".to_owned()), "{round}");
        // It needs 3 MiB, which the last one has given back.
        assert_eq!(env.post("/batch/", &text).status, 200, "{round}");
    }
    assert_eq!(env.rows().events.len(), 3 * EVENTS);
}
