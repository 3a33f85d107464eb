//! Runs of several generators, joined.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::hdr::HdrLog;
use millrace_load::join::{join, notes};
use millrace_load::{Mode, Plan, Summary, run};
use std::time::Duration;

fn run_of(server: &Server, connections: u16, requests: u64) -> Summary {
    let mut plan = Plan::new(&server.url, "key").with_requests(requests);
    plan.connections = connections;
    plan.batch_events = 2;
    run(&plan).unwrap()
}

#[test]
fn joined_runs_have_the_counts_and_percentiles_of_all_requests() {
    let server = Server::start(Work::Drain);
    let (one, other) = (run_of(&server, 3, 200), run_of(&server, 5, 300));
    let runs = [one.clone(), other.clone()];
    let joined = join(&runs).unwrap();
    assert_eq!(joined.run_id, format!("{}+{}", one.run_id, other.run_id));
    assert_eq!(joined.plan.connections, 8);
    assert_eq!(joined.run.acknowledged_requests, 500, "{joined}");
    assert_eq!(joined.run.acknowledged_events, 1000);
    assert_eq!(joined.latency.count, 500);
    let max = f64::max(one.latency.max_us, other.latency.max_us);
    assert_eq!(joined.latency.max_us, max);
    let medians = [one.latency.p50_us, other.latency.p50_us];
    let (low, high) = (medians[0].min(medians[1]), medians[0].max(medians[1]));
    assert!((low..=high).contains(&joined.latency.p50_us), "{joined}");
    let points = joined.series.points.iter();
    let acknowledged: u64 = points.map(|point| point.acknowledged_requests).sum();
    assert_eq!(acknowledged, 500);
    assert_eq!(notes(&runs), Vec::<String>::new());
}

#[test]
fn a_joined_run_has_all_that_a_run_has() {
    let server = Server::start(Work::Drain);
    let one = run_of(&server, 3, 100);
    let alone = join(std::slice::from_ref(&one)).unwrap();
    assert_eq!(alone.latency, one.latency);
    assert_eq!(alone.latency_distribution, one.latency_distribution);
    assert_eq!(alone.send_lag, one.send_lag);
    assert_eq!((alone.run, alone.window), (one.run, one.window));
    let latencies = |run: &Summary| {
        let points = run.series.points.iter();
        points.map(|point| point.latency).collect::<Vec<_>>()
    };
    assert_eq!(latencies(&alone), latencies(&one));
    let log = HdrLog::parse(&alone.hdr_log).unwrap();
    assert_eq!(log.seconds().count(), one.series.points.len());
    let twice = join(&[alone.clone(), alone]).unwrap();
    assert_eq!(twice.latency.count, 200);
    assert_eq!(twice.latency.p99_us, one.latency.p99_us);
}

#[test]
fn runs_that_cannot_be_added_are_refused() {
    let server = Server::start(Work::Drain);
    let one = run_of(&server, 1, 5);
    type Change = fn(&mut Summary);
    let cases: [(&str, Change); 4] = [
        ("has no histograms", |run| run.hdr_log.clear()),
        ("other histograms than points", |run| {
            run.series.points.clear();
        }),
        ("different warm-ups", |run| {
            run.plan.warm_up = Duration::from_secs(1);
        }),
        ("closed loop and open loop", |run| {
            run.plan.mode = Mode::Open {
                events_per_second: 5.0,
            };
        }),
    ];
    for (says, change) in cases {
        let mut other = one.clone();
        change(&mut other);
        let error = join(&[one.clone(), other]).unwrap_err();
        assert!(format!("{error:#}").contains(says), "{error:#}");
    }
    assert!(join(&[]).is_err());
    let mut other = one.clone();
    other.plan.batch_events = 3;
    let expected = "the runs differ in size: 2 × 998 B a request and 3 × 998 B a request";
    assert_eq!(notes(&[one, other]), [expected]);
}
