//! Overload: which requests are rejected, at which cost, and that the server recovers.

use crate::client::{Client, request};
use crate::test_env::{OTHER_KEY, TestEnv, batch, event};
use millrace_pipeline::{Ack, Slot};
use millrace_rows::Lane;
use serde_json::json;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Time that a test waits before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a request is counted for beside its body.
const REQUEST_BYTES: usize = 4 << 10;
/// Bytes that are more than a commit thread is given at a time: further requests have to wait.
const BUSY: usize = 40 * MIB;

/// Server with one worker, so that all requests meet.
fn test_env() -> TestEnv {
    TestEnv::with(|options| {
        options.server.workers = 1;
        options.server.limits.waiting_bytes_max = 8 * MIB;
    })
}

/// Keeps the commit thread busy until this is dropped.
fn busy(env: &TestEnv) -> Slot {
    let mut busy = env.pipeline.reserve(Lane::Live, BUSY).unwrap();
    busy.hand_over();
    busy
}

/// Builds a batch of one event, padded to a length.
fn padded(key: &str, bytes: usize) -> Vec<u8> {
    let mut body = json!({"api_key": key, "batch": [event("e")]})
        .to_string()
        .into_bytes();
    body.resize(bytes, b' ');
    body
}

#[test]
fn a_request_that_cannot_be_stored_is_refused_before_its_body_and_costs_no_connection() {
    let env = test_env();
    let mut client = env.client();
    let all = env.pipeline.reserve(Lane::Live, 256 * MIB).unwrap();
    for _ in 0..3 {
        let body = padded("phc_x", 200_000);
        let answer = client.post("/batch/", &[], &body);
        assert_eq!((answer.status, answer.code().as_str()), (503, "queue_full"));
        assert_eq!(answer.header("connection"), None);
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((2..=6).contains(&seconds), "{seconds}");
    }
    let asked = client.post("/batch/?dry_run=true", &[], batch(&["e"]).as_bytes());
    assert_eq!(asked.status, 200);
    // A client that asks first gets the refusal without having sent anything.
    let mut asks = env.client();
    asks.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(asks.read().status, 503);
    drop(all);
    let answer = client.post("/batch/", &[], batch(&["after"]).as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(env.rows().names(), ["after"]);
}

#[test]
fn requests_that_wait_for_clickhouse_delay_no_other() {
    for (ack, keeps_up) in [(Ack::Disk, false), (Ack::ClickHouse, true)] {
        let env = TestEnv::with(|options| options.pipeline.ack = ack);
        let mut busy = env.pipeline.reserve(Lane::Live, BUSY).unwrap();
        assert!(
            env.pipeline.keeps_up(Lane::Live),
            "{ack:?}: it has nothing yet"
        );
        busy.hand_over();
        assert_eq!(env.pipeline.keeps_up(Lane::Live), keeps_up, "{ack:?}");
        assert!(env.pipeline.keeps_up(Lane::Historical), "{ack:?}");
    }
}

#[test]
fn retries_are_scattered() {
    let env = test_env();
    let _all = env.pipeline.reserve(Lane::Live, 256 * MIB).unwrap();
    let mut client = env.client();
    let mut seen: Vec<_> = (0..100)
        .map(|_| {
            let answer = client.post("/batch/", &[], batch(&["e"]).as_bytes());
            answer.header("retry-after").unwrap().to_owned()
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() > 2, "{seen:?}");
}

#[test]
fn a_large_project_is_rejected_and_a_small_one_is_served() {
    let env = test_env();
    // Only known keys count while projects compete.
    let large = padded(OTHER_KEY, MIB / 2 - 2 * REQUEST_BYTES);
    for first in [batch(&["first"]).into_bytes(), large.clone()] {
        assert_eq!(env.post("/batch/", first).status, 200);
    }
    let busy = busy(&env);
    let large = request("POST", "/batch/", &[], &large);
    let (told, statuses) = sync_channel(100);
    let post = |bytes: Vec<u8>| {
        let (mut client, told) = (env.client(), told.clone());
        client.send(&bytes);
        std::thread::spawn(move || told.send(client.read().status).unwrap())
    };
    // Eight of them fill the half of the capacity that one project may have.
    let clients: Vec<_> = (0..20).map(|_| post(large.clone())).collect();
    for _ in 0..12 {
        assert_eq!(statuses.recv_timeout(TEST_TIMEOUT).unwrap(), 503);
    }
    let mut small: Vec<Client> = (0..10).map(|_| env.client()).collect();
    for client in &mut small {
        client.send(&request(
            "POST",
            "/batch/",
            &[],
            batch(&["small"]).as_bytes(),
        ));
    }
    let again = post(large);
    assert_eq!(
        statuses.recv_timeout(TEST_TIMEOUT).unwrap(),
        503,
        "the large one is still rejected"
    );
    drop(busy);
    for mut client in small {
        assert_eq!(client.read().status, 200);
    }
    for _ in 0..8 {
        assert_eq!(
            statuses.recv_timeout(TEST_TIMEOUT).unwrap(),
            200,
            "admitted requests are served"
        );
    }
    for client in clients.into_iter().chain([again]) {
        client.join().unwrap();
    }
    assert_eq!(env.rows().events.len(), 2 + 10 + 8);
}

#[test]
fn a_client_that_leaves_the_queue_frees_its_place() {
    let env = test_env();
    let busy = busy(&env);
    for _ in 0..50 {
        let mut client = env.client();
        client.send(&request(
            "POST",
            "/batch/",
            &[],
            &padded("phc_gone", 300_000),
        ));
    }
    drop(busy);
    assert_eq!(env.post("/batch/", batch(&["here"])).status, 200);
    assert_eq!(env.rows().names(), ["here"]);
}
