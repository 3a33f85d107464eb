//! ClickHouse away for longer than the log has room.

use super::stand::{Load, Stand, fault_length};
use crate::server::eventually;
use millrace_load::{Mode, Plan};
use serde_json::json;

/// Status and `Retry-After` of a request.
fn capture(stand: &Stand) -> (u16, Option<u32>) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let body = json!({
        "api_key": stand.server.credential("project_api_key"),
        "batch": [{"event": "knock", "distinct_id": "me"}],
    });
    let answer = agent
        .post(format!("{}/batch/", stand.server.credential("ingest_url")))
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .unwrap();
    let after = answer.headers().get("retry-after");
    let seconds = after.map(|value| value.to_str().unwrap().parse().unwrap());
    (answer.status().as_u16(), seconds)
}

#[test]
fn a_full_log_answers_503_with_retry_after_and_recovers_by_itself() {
    let stand = Stand::start(&["--log-bytes-max", "64MiB"]);
    let plan = Plan {
        mode: Mode::Closed,
        batch_events: 250,
        event_bytes: Plan::EVENT_BYTES_DEFAULT,
        historical_share: 0.0,
        ..stand.plan(1.0)
    };
    // Twice, as what is left behind by the first must not take the room of the second.
    for _ in 0..2 {
        stand.proxy.set("down".parse().unwrap());
        let load = Load::start(plan.clone());
        // However long it takes to fill, as long as it goes on.
        while load.failed() == 0 {
            let before = load.acknowledged();
            eventually("a full log, or a fuller one", || {
                (load.failed() > 0 || load.acknowledged() > before).then_some(())
            });
        }
        let (status, seconds) = capture(&stand);
        assert_eq!(status, 503);
        assert!(seconds.is_some_and(|seconds| seconds > 0), "{seconds:?}");
        std::thread::sleep(fault_length());
        let failures = load.end().failures;
        assert_eq!(failures.keys().collect::<Vec<_>>(), ["status 503"]);
        stand.proxy.lift();
        eventually("room", || (capture(&stand).0 == 200).then_some(()));
    }
    stand.assert_exactly_once("millrace.events");
}
