//! Outage that fills the log.

use super::test_env::{Load, TestEnv, fault_length};
use crate::server::eventually;
use millrace_load::{Mode, Plan};

#[test]
fn a_full_log_answers_503_with_retry_after_and_recovers_by_itself() {
    let env = TestEnv::start(&["--log-bytes-max", "64MiB"]);
    let plan = Plan {
        mode: Mode::Closed,
        batch_events: 250,
        event_bytes: Plan::EVENT_BYTES_DEFAULT,
        historical_share: 0.0,
        ..env.plan(1.0)
    };
    // Twice, as leftovers of the first outage must not take capacity from the second.
    for _ in 0..2 {
        env.proxy.set("down".parse().unwrap());
        let load = Load::start(plan.clone());
        // However long the log takes to fill, as long as it fills.
        while load.failed() == 0 {
            let before = load.acknowledged();
            eventually("a full log, or a fuller one", || {
                (load.failed() > 0 || load.acknowledged() > before).then_some(())
            });
        }
        let key = env.server.credential("project_api_key");
        let (status, seconds) = env.post_event(&key);
        assert_eq!(status, 503);
        assert!(seconds.is_some_and(|seconds| seconds > 0), "{seconds:?}");
        std::thread::sleep(fault_length());
        let failures = load.end().failures;
        assert_eq!(failures.keys().collect::<Vec<_>>(), ["status 503"]);
        env.proxy.lift();
        eventually("space", || (env.post_event(&key).0 == 200).then_some(()));
    }
    env.assert_exactly_once("millrace.events");
}
