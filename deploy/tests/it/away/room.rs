//! ClickHouse away for longer than the log has room.

use super::stand::{Load, Stand, fault_length};
use crate::server::eventually;
use millrace_load::{Mode, Plan};

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
        let key = stand.server.credential("project_api_key");
        let (status, seconds) = stand.knock(&key);
        assert_eq!(status, 503);
        assert!(seconds.is_some_and(|seconds| seconds > 0), "{seconds:?}");
        std::thread::sleep(fault_length());
        let failures = load.end().failures;
        assert_eq!(failures.keys().collect::<Vec<_>>(), ["status 503"]);
        stand.proxy.lift();
        eventually("room", || (stand.knock(&key).0 == 200).then_some(()));
    }
    stand.assert_exactly_once("millrace.events");
}
