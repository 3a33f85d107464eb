//! Runs against servers that answer otherwise than ours.

use crate::scripted::{OK, scripted};
use millrace_load::api::{Api, Header};
use millrace_load::own_body::OwnBody;
use millrace_load::{Compression, Plan, run};
use std::collections::BTreeSet;

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

#[test]
fn path_form_and_headers_are_those_of_the_other_server() {
    let (url, thread) = scripted(vec![OK, OK]);
    let mut plan = Plan::new(&format!("{url}/capture/?v=2"), "phc_other").with_requests(2);
    plan.connections = 1;
    plan.api = Api::List;
    plan.batch_events = 2;
    plan.compression = Compression::Gzip;
    plan.headers = vec![Header::parse("Authorization: Bearer secret").unwrap()];
    let summary = run(&plan).unwrap();
    assert_eq!(summary.run.acknowledged_events, 4, "{summary}");
    for request in thread.join().unwrap() {
        let end = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let head = std::str::from_utf8(&request[..end]).unwrap();
        assert!(
            head.starts_with("POST /capture/?v=2 HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(
            head.contains("\r\nauthorization: Bearer secret\r\n"),
            "{head}"
        );
        let mut json = vec![0; 10_000];
        let mut inflate = libdeflater::Decompressor::new();
        let length = inflate.gzip_decompress(&request[end..], &mut json).unwrap();
        let events: serde_json::Value = serde_json::from_slice(&json[..length]).unwrap();
        assert_eq!(events.as_array().unwrap().len(), 2);
        assert_eq!(events[1]["api_key"], "phc_other");
    }
    let json = serde_json::to_string(&summary).unwrap();
    assert!(!json.contains("secret"), "{json}");
}

#[test]
fn bodies_of_users_are_sent_in_turn_with_new_uuids() {
    let (url, thread) = scripted(vec![OK; 40]);
    let dir = tempfile::tempdir().unwrap();
    let bodies = ["one", "two"].map(|name| {
        let path = dir.path().join(name);
        let text = format!("{{\"event\":\"{name}\",\"uuid\":\"{{{{uuid}}}}\"}}");
        std::fs::write(&path, text).unwrap();
        OwnBody::read(&path).unwrap()
    });
    let mut plan = Plan::new(&url, "key").with_requests(40);
    plan.connections = 1;
    plan.bodies = bodies.to_vec();
    let summary = run(&plan).unwrap();
    assert_eq!(summary.run.acknowledged_events, 40, "{summary}");
    assert!(summary.to_string().contains("the body of "), "{summary}");
    let (mut names, mut uuids) = (Vec::new(), BTreeSet::new());
    for request in thread.join().unwrap() {
        let text = String::from_utf8(request).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let event: serde_json::Value = serde_json::from_str(body).unwrap();
        names.push(event["event"].as_str().unwrap().to_owned());
        uuids.insert(event["uuid"].as_str().unwrap().to_owned());
    }
    assert_eq!(uuids.len(), 40);
    let ones = names.iter().filter(|name| *name == "one").count();
    assert!((15..=25).contains(&ones), "{names:?}");
}
