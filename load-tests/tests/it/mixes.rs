//! Runs whose requests have several sizes.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::mix::RequestSize;
use millrace_load::{Mode, Plan, run};
use std::time::Duration;

fn plan(server: &Server) -> Plan {
    let mut plan = Plan::new(&server.url, "key");
    plan.connections = 5;
    plan.threads = 2;
    plan.mix = ["1", "10xsmall"]
        .map(|size| RequestSize::parse(size).unwrap())
        .to_vec();
    plan
}

#[test]
fn events_of_mixed_requests_are_counted_as_they_are_acknowledged() {
    let server = Server::start(Work::Tape);
    let summary = run(&plan(&server).with_requests(1000)).unwrap();
    assert_eq!(server.requests(), 1000);
    assert_eq!(summary.run.acknowledged_requests, 1000, "{summary}");
    let events = summary.run.acknowledged_events;
    assert!(events.abs_diff(5500) < 200, "{events}");
    // With events of 998 and of 136 bytes, and some 120 bytes around them.
    assert!(server.body_bytes().abs_diff(500 * 1118 + 500 * 1490) < 100_000);
    let points = &summary.series.points;
    assert_eq!(
        points.iter().map(|p| p.acknowledged_events).sum::<u64>(),
        events
    );
    assert_eq!(summary.window, summary.run);
    let text = summary.to_string();
    assert!(text.contains("requests of 1=1, 10x136=1"), "{text}");
}

#[test]
fn an_open_loop_of_mixed_requests_keeps_its_rate_on_average() {
    let server = Server::start(Work::Drain);
    let mut plan = plan(&server);
    plan.mode = Mode::Open {
        events_per_second: 11_000.0,
    };
    plan.warm_up = Duration::ZERO;
    plan.duration = Duration::from_millis(250);
    let summary = run(&plan).unwrap();
    let due = summary.run.acknowledged_requests + summary.run.unsent_requests;
    assert_eq!(due, 500, "{summary}");
}
