//! Open loops whose rate changes.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::stages::Stage;
use millrace_load::{Plan, html, run};
use std::time::Duration;

#[test]
fn a_run_of_stages_sends_what_is_due_in_them() {
    let server = Server::start(Work::Drain);
    let mut plan = Plan::new(&server.url, "key");
    plan.batch_events = 20;
    plan.warm_up = Duration::from_millis(50);
    let stages = ["100ms:20000", "100ms:20000..0", "50ms:0"];
    let stages = stages.map(|text| Stage::parse(text).unwrap());
    let summary = run(&plan.with_stages(stages.to_vec())).unwrap();
    assert_eq!(summary.run.failed_requests, 0, "{summary}");
    // A busy machine may leave some requests unsent.
    let window = summary.window;
    assert_eq!(window.acknowledged_requests + window.unsent_requests, 150);
    assert_eq!(summary.run.acknowledged_requests, server.requests());
    // The last stage sends nothing, so a run may end before it does.
    assert!((0.1..=0.25).contains(&summary.window_seconds), "{summary}");
    let shown = "20 000 to 0 events/s for 100ms";
    assert!(summary.to_string().contains(shown), "{summary}");
    assert!(html::run_page(&summary).unwrap().contains(shown));
}
