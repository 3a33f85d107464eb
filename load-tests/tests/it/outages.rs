//! Runs against servers that do not acknowledge.

use crate::scripted::{OK, scripted};
use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::ledger::AckLedger;
use millrace_load::{Compression, Plan, run};
use std::net::TcpListener;

#[test]
fn failed_requests_are_counted_by_reason_and_not_in_the_ledger() {
    const BUSY: &str = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy";
    const SOME: &str =
        "HTTP/1.1 200 OK\r\nContent-Length: 19\r\nConnection: close\r\n\r\n{\"rejected_count\":1}";
    const ENDLESS: &str = "HTTP/1.1 200 OK\r\n\r\n";
    const TORN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{";
    let (url, thread) = scripted(vec![OK, BUSY, SOME, "", ENDLESS, TORN, OK]);
    let dir = tempfile::tempdir().unwrap();
    let mut plan = Plan::new(&url, "key").with_requests(7);
    plan.connections = 1;
    plan.batch_events = 2;
    plan.ledger = Some(dir.path().join("ledger"));
    plan.run_id = Some(9);
    let summary = run(&plan).unwrap();
    thread.join().unwrap();

    assert_eq!(summary.run.acknowledged_requests, 2, "{summary}");
    assert_eq!(summary.run.failed_requests, 5);
    for (reason, count) in [
        ("status 503", 1),
        ("status 200 with other rejected events than expected", 1),
        ("connection closed without an answer", 2),
        ("answer has no Content-Length", 1),
    ] {
        assert_eq!(summary.failures.get(reason), Some(&count), "{summary}");
    }
    assert_eq!(summary.first_failure.as_deref(), Some("status 503: busy"));
    let ledger = AckLedger::read(&dir.path().join("ledger")).unwrap();
    assert_eq!(
        ledger.runs[&9].acknowledged,
        [((0, 0), 2), ((0, 6), 2)].into()
    );
}

#[test]
fn refused_bodies_are_failures_with_their_status() {
    let server = Server::start(Work::Tape);
    let mut plan = Plan::new(&server.url, "key").with_requests(3);
    plan.compression = Compression::Zstd;
    let summary = run(&plan).unwrap();
    assert_eq!(summary.failures, [("status 400".to_owned(), 3)].into());
}

#[test]
fn a_server_that_is_not_there_is_an_error_of_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let mut plan = Plan::new(&url, "key").with_requests(1);
    plan.threads = 3;
    let error = run(&plan).unwrap_err().to_string();
    assert!(error.contains("cannot connect to 127.0.0.1:"), "{error}");
}
