//! More work than can be done: who is sent away, how cheaply, and that all is well afterwards.

use crate::client::{Client, request};
use crate::stand::{OTHER_KEY, Stand, batch, event};
use millrace_pipeline::{Ack, Slot};
use millrace_rows::Lane;
use serde_json::json;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

const MIB: usize = 1 << 20;
/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a request is counted for beside its bytes.
const REQUEST_BYTES: usize = 4 << 10;
/// More than a commit thread is given at a time: whoever comes now has to wait.
const BUSY: usize = 40 * MIB;

/// One worker, so that everyone meets.
fn stand() -> Stand {
    Stand::with(|options| {
        options.server.workers = 1;
        options.server.limits.waiting_bytes_max = 8 * MIB;
    })
}

/// The commit thread has its hands full until this is dropped.
fn busy(stand: &Stand) -> Slot {
    let mut busy = stand.pipeline.reserve(Lane::Live, BUSY).unwrap();
    busy.hand_over();
    busy
}

/// A batch of one event, as long as asked for.
fn padded(key: &str, bytes: usize) -> Vec<u8> {
    let mut body = json!({"api_key": key, "batch": [event("e")]})
        .to_string()
        .into_bytes();
    body.resize(bytes, b' ');
    body
}

#[test]
fn a_request_that_cannot_be_stored_is_refused_before_its_body_and_costs_no_connection() {
    let stand = stand();
    let mut client = stand.client();
    let all = stand.pipeline.reserve(Lane::Live, 256 * MIB).unwrap();
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
    // Whoever asks first is told without having sent anything.
    let mut asks = stand.client();
    asks.send(b"POST /batch/ HTTP/1.1\r\nHost: t\r\nContent-Length: 9000000\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(asks.read().status, 503);
    drop(all);
    let answer = client.post("/batch/", &[], batch(&["after"]).as_bytes());
    assert_eq!(answer.status, 200);
    assert_eq!(stand.rows().names(), ["after"]);
}

#[test]
fn requests_that_wait_for_clickhouse_hold_nobody_up() {
    for (ack, keeps_up) in [(Ack::Disk, false), (Ack::ClickHouse, true)] {
        let stand = Stand::with(|options| options.pipeline.ack = ack);
        let mut busy = stand.pipeline.reserve(Lane::Live, BUSY).unwrap();
        assert!(
            stand.pipeline.keeps_up(Lane::Live),
            "{ack:?}: it has nothing yet"
        );
        busy.hand_over();
        assert_eq!(stand.pipeline.keeps_up(Lane::Live), keeps_up, "{ack:?}");
        assert!(stand.pipeline.keeps_up(Lane::Historical), "{ack:?}");
    }
}

#[test]
fn retries_are_scattered() {
    let stand = stand();
    let _all = stand.pipeline.reserve(Lane::Live, 256 * MIB).unwrap();
    let mut client = stand.client();
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
fn a_large_project_is_sent_away_and_a_small_one_is_served() {
    let stand = stand();
    // Only known keys are believed while projects compete.
    let large = padded(OTHER_KEY, MIB / 2 - 2 * REQUEST_BYTES);
    for first in [batch(&["first"]).into_bytes(), large.clone()] {
        assert_eq!(stand.post("/batch/", first).status, 200);
    }
    let busy = busy(&stand);
    let large = request("POST", "/batch/", &[], &large);
    let (told, statuses) = sync_channel(100);
    let post = |bytes: Vec<u8>| {
        let (mut client, told) = (stand.client(), told.clone());
        client.send(&bytes);
        std::thread::spawn(move || told.send(client.read().status).unwrap())
    };
    // Eight of them fill the half of the room that one project may have.
    let clients: Vec<_> = (0..20).map(|_| post(large.clone())).collect();
    for _ in 0..12 {
        assert_eq!(statuses.recv_timeout(PATIENCE).unwrap(), 503);
    }
    let mut small: Vec<Client> = (0..10).map(|_| stand.client()).collect();
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
        statuses.recv_timeout(PATIENCE).unwrap(),
        503,
        "the large one is still sent away"
    );
    drop(busy);
    for mut client in small {
        assert_eq!(client.read().status, 200);
    }
    for _ in 0..8 {
        assert_eq!(
            statuses.recv_timeout(PATIENCE).unwrap(),
            200,
            "what was let in is served"
        );
    }
    for client in clients.into_iter().chain([again]) {
        client.join().unwrap();
    }
    assert_eq!(stand.rows().events.len(), 2 + 10 + 8);
}

#[test]
fn a_client_that_leaves_the_queue_leaves_its_place() {
    let stand = stand();
    let busy = busy(&stand);
    for _ in 0..50 {
        let mut client = stand.client();
        client.send(&request(
            "POST",
            "/batch/",
            &[],
            &padded("phc_gone", 300_000),
        ));
    }
    drop(busy);
    assert_eq!(stand.post("/batch/", batch(&["here"])).status, 200);
    assert_eq!(stand.rows().names(), ["here"]);
}
