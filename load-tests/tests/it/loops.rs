//! Runs in closed and open loops: counts, window, ledger and summary.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::ledger::AckLedger;
use millrace_load::summary::Counts;
use millrace_load::{Compression, Mode, Plan, Stop, Summary, compare, html, run, run_observed};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{\"status\":\"Ok\"}";

fn plan(server: &Server) -> Plan {
    let mut plan = Plan::new(&server.url, "key");
    plan.connections = 5;
    plan.threads = 2;
    plan.batch_events = 20;
    plan
}

/// Checks that the server and the summary agree on `requests`, all of them acknowledged.
fn check_all_acknowledged(server: &Server, summary: &Summary, requests: u64) {
    assert_eq!(server.requests(), requests);
    assert_eq!(summary.run.failed_requests, 0, "{summary}");
    assert_eq!(summary.run.acknowledged_requests, requests);
    assert_eq!(summary.run.acknowledged_events, requests * 20);
    assert_eq!(summary.window, summary.run);
    assert_eq!(summary.latency.count, requests);
    let points = &summary.series.points;
    let acknowledged: u64 = points.iter().map(|p| p.acknowledged_requests).sum();
    assert_eq!(acknowledged, requests, "{points:?}");
}

#[test]
fn a_closed_loop_sends_the_requested_number_of_requests() {
    let server = Server::start(Work::Tape);
    let summary = run(&plan(&server).with_requests(303)).unwrap();
    check_all_acknowledged(&server, &summary, 303);
    assert!(server.body_bytes() >= 303 * 20 * 998);
}

#[test]
fn an_open_loop_sends_one_request_per_interval() {
    let server = Server::start(Work::Tape);
    let mut plan = plan(&server);
    plan.mode = Mode::Open {
        events_per_second: 20_000.0,
    };
    plan.warm_up = Duration::ZERO;
    plan.duration = Duration::from_millis(250);
    let summary = run(&plan).unwrap();
    let unsent = summary.run.unsent_requests;
    assert_eq!(server.requests(), 250 - unsent, "{summary}");
    assert_eq!(summary.run.acknowledged_requests, 250 - unsent);
    assert_eq!(summary.run.failed_requests, 0);
    assert_eq!(summary.window, summary.run);
    assert_eq!((summary.latency.count, summary.send_lag.count), (250, 250));
}

#[test]
fn an_open_loop_ends_with_its_window_and_reports_unsent_requests() {
    let server = Server::start(Work::Drain);
    let mut plan = plan(&server);
    // No machine can send 50 million requests a second.
    plan.mode = Mode::Open {
        events_per_second: 1e9,
    };
    plan.warm_up = Duration::from_millis(50);
    plan.duration = Duration::from_millis(200);
    let summary = run(&plan).unwrap();
    let sent = server.requests();
    assert!(sent > 0);
    assert_eq!(summary.run.acknowledged_requests, sent);
    assert_eq!(summary.run.unsent_requests, 12_500_000 - sent);
    let window = summary.window;
    assert_eq!(
        window.acknowledged_requests + window.unsent_requests,
        10_000_000
    );
    assert_eq!(summary.latency.count, 10_000_000);
    let text = summary.to_string();
    let said = "The rate was not kept up: ";
    assert!(text.contains(said), "{text}");
    assert!(html::run_page(&summary).unwrap().contains(said));
    let table = compare::compare(&summary, &summary);
    assert!(table.contains("requests due and not sent"), "{table}");
}

#[test]
fn requests_unsent_behind_a_hanging_server_count_in_the_latency() {
    let (url, thread) = hanging_after(20);
    let mut plan = Plan::new(&url, "key");
    plan.connections = 1;
    plan.batch_events = 1;
    plan.mode = Mode::Open {
        events_per_second: 200.0,
    };
    plan.warm_up = Duration::ZERO;
    plan.duration = Duration::from_millis(500);
    plan.timeout = Duration::from_secs(1);
    let summary = run(&plan).unwrap();
    thread.join().unwrap();
    let run = summary.run;
    // At most one request got no response.
    let failed = run.failed_requests;
    assert!(run.acknowledged_requests <= 20 && failed <= 1, "{summary}");
    assert_eq!(
        run.unsent_requests,
        100 - run.acknowledged_requests - failed
    );
    assert_eq!(summary.latency.count, 100 - failed);
    // Four of five requests were not sent, so the median is one of them.
    assert_eq!(summary.latency.p50_us, summary.latency.max_us);
}

/// Starts a server of one connection that answers `answers` requests and then none, until the
/// client gives up.
fn hanging_after(answers: usize) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut piece = [0; 4096];
        for _ in 0..answers {
            let mut end = Vec::new();
            while !end.ends_with(b"]}") {
                match stream.read(&mut piece).unwrap() {
                    0 => return,
                    read => end.extend_from_slice(&piece[..read]),
                }
            }
            stream.write_all(ANSWER).unwrap();
        }
        while stream.read(&mut piece).unwrap() > 0 {}
    });
    (url, thread)
}

#[test]
fn the_warm_up_of_an_open_loop_is_left_out_of_the_figures() {
    let server = Server::start(Work::Drain);
    let mut plan = plan(&server);
    plan.mode = Mode::Open {
        events_per_second: 20_000.0,
    };
    plan.warm_up = Duration::from_millis(100);
    plan.duration = Duration::from_millis(150);
    let summary = run(&plan).unwrap();
    // A busy machine may leave some requests unsent.
    let due = |counts: Counts| counts.acknowledged_requests + counts.unsent_requests;
    assert_eq!((due(summary.run), due(summary.window)), (250, 150));
    assert_eq!(summary.window_seconds, 0.15);
    let events = summary.window.acknowledged_events as f64;
    assert_eq!(summary.events_per_second, events / 0.15);
}

#[test]
fn every_encoding_and_size_arrives() {
    for (compression, batch_events, event_bytes) in [
        (Compression::Gzip, 250, 998),
        (Compression::Zstd, 250, 998),
        (Compression::None, 1, 136),
        (Compression::None, 4, 2_000_000),
    ] {
        let server = Server::start(Work::Drain);
        let mut plan = plan(&server).with_requests(20);
        plan.compression = compression;
        plan.batch_events = batch_events;
        plan.event_bytes = event_bytes;
        let summary = run(&plan).unwrap();
        assert_eq!(summary.run.acknowledged_requests, 20, "{summary}");
        let plain = 20 * u64::from(batch_events) * event_bytes as u64;
        assert_eq!(
            server.body_bytes() > plain,
            compression == Compression::None,
            "{compression:?}"
        );
    }
}

#[test]
fn the_ledger_has_every_acknowledged_batch_of_every_run() {
    let server = Server::start(Work::Drain);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let mut plan = plan(&server).with_requests(50);
    plan.ledger = Some(path.clone());
    for run_id in [1, 2] {
        plan.run_id = Some(run_id);
        let summary = run(&plan).unwrap();
        assert_eq!(summary.run_id, format!("0000000{run_id}"));
    }
    let ledger = AckLedger::read(&path).unwrap();
    assert_eq!(ledger.runs.len(), 2);
    for found in ledger.runs.values() {
        assert_eq!(found.batch_events, 20);
        assert_eq!(found.acknowledged.len(), 50);
        assert_eq!(found.acknowledged_events(), 1000);
        for connection in 0..5 {
            let batches = found.acknowledged.keys().filter(|key| key.0 == connection);
            let batches: std::collections::BTreeSet<_> = batches.map(|key| key.1).collect();
            assert!(batches.iter().copied().eq(0..batches.len() as u32));
        }
    }
}

#[test]
fn a_run_ends_when_it_is_asked_to_and_still_reports() {
    let server = Server::start(Work::Drain);
    let mut plan = plan(&server);
    plan.warm_up = Duration::ZERO;
    plan.duration = Duration::from_secs(3600);
    let stop = Stop::default();
    let summary = run_observed(&plan, &stop, &mut |progress| {
        if progress.acknowledged_events > 0 {
            stop.ask();
        }
    })
    .unwrap();
    assert_eq!(server.requests(), summary.run.acknowledged_requests);
    assert!(summary.window_seconds > 0.0);
}

#[test]
fn a_summary_survives_its_file_and_compares_with_itself() {
    let server = Server::start(Work::Drain);
    let mut plan = plan(&server).with_requests(10);
    plan.server_pid = Some(std::process::id());
    let summary = run(&plan).unwrap();
    assert!(summary.server.unwrap().rss_bytes > 0);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("summary.json");
    summary.write(&path).unwrap();
    let read = Summary::read(&path).unwrap();
    assert_eq!(read.to_string(), summary.to_string());
    let table = compare::compare(&read, &summary);
    assert!(table.contains("latency p99.9"), "{table}");
    assert!(!table.contains("Note"), "{table}");
}
