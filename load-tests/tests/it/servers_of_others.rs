//! Runs against servers that answer otherwise than ours.

use crate::scripted::scripted;
use millrace_load::{Plan, run};

#[test]
fn every_success_acknowledges_a_request_chunked_or_empty() {
    const EMPTY: &str = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    const ACCEPTED: &str =
        "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
        Connection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
    const GARBLED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n";
    const REJECTED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\
        Connection: close\r\n\r\n14\r\n{\"rejected_count\":3}\r\n0\r\n\r\n";
    let (url, thread) = scripted(vec![EMPTY, ACCEPTED, CHUNKED, GARBLED, REJECTED]);
    let mut plan = Plan::new(&url, "key").with_requests(5);
    plan.connections = 1;
    plan.batch_events = 2;
    let summary = run(&plan).unwrap();
    thread.join().unwrap();

    assert_eq!(summary.run.acknowledged_requests, 3, "{summary}");
    assert_eq!(summary.run.acknowledged_events, 6);
    for reason in [
        "answer's chunks cannot be parsed",
        "status 200 with other rejected events than expected",
    ] {
        assert_eq!(summary.failures.get(reason), Some(&1), "{summary}");
    }
}
