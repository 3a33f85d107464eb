//! Section 3: the project key.

use crate::test_env::{KEY, TestEnv, batch, event};
use serde_json::json;

#[test]
fn a_request_without_a_good_key_is_401_and_stores_nothing() {
    let env = TestEnv::start();
    let keyed = |key: serde_json::Value| json!({"api_key": key, "batch": [event("e")]});
    let two = json!([
        {"event": "e", "distinct_id": "d", "api_key": KEY},
        {"event": "e", "distinct_id": "d", "api_key": "phc_other"},
    ]);
    let table = [
        (json!({"batch": [event("e")]}), "missing_api_key"),
        (json!([event("e")]), "missing_api_key"),
        (keyed("".into()), "invalid_api_key"),
        (keyed("ключ".into()), "invalid_api_key"),
        (keyed("k".repeat(65).into()), "invalid_api_key"),
        (keyed("phx_personal".into()), "invalid_api_key"),
        (keyed("phc_nobodys".into()), "unknown_api_key"),
        (two, "multiple_api_keys"),
    ];
    for (body, code) in table {
        let answer = env.post("/batch/", body.to_string());
        assert_eq!(
            (answer.status, answer.code().as_str()),
            (401, code),
            "{body}"
        );
        assert_eq!(answer.json()["type"], "authentication_error", "{body}");
    }
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (0, 0));
    assert_eq!(env.post("/batch/", batch(&["e"])).status, 200);
    assert_eq!(env.rows().events[0].team_id, 1);
}
