//! Overloaded core: requests are rejected at once, unread, and the connection goes on.

use crate::client::{TestResponse, request};
use crate::test_env::{KEY, TestEnv, batch, event};
use millrace_pipeline::Slot;
use millrace_rows::Lane;
use serde_json::json;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// Time that a test waits before it fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a request is counted for beside its body.
const REQUEST_BYTES: usize = 4 << 10;
/// Requests of half a MiB that fill what one project may have of the queue.
const WAITING: usize = 8;
/// Requests that do not fit.
const REFUSED: usize = 8;

/// Server with one worker whose commit thread is busy, and whose queue holds all that one project
/// may have there.
struct Overloaded {
    /// Slot that keeps the commit thread busy; dropped before the server ends, which waits for the
    /// thread.
    busy: Option<Slot>,
    env: TestEnv,
    statuses: Receiver<u16>,
}

impl Overloaded {
    fn new() -> Self {
        let env = TestEnv::with(|options| {
            options.server.workers = 1;
            options.server.limits.waiting_bytes_max = WAITING * MIB;
        });
        assert_eq!(env.post("/batch/", batch(&["first"])).status, 200);
        let mut busy = env.pipeline.reserve(Lane::Live, 40 * MIB).unwrap();
        busy.hand_over();
        let large = request("POST", "/batch/", &[], &padded(MIB / 2 - REQUEST_BYTES));
        let (told, statuses) = sync_channel(100);
        for _ in 0..WAITING + REFUSED {
            let (mut client, told, large) = (env.client(), told.clone(), large.clone());
            std::thread::spawn(move || {
                client.send(&large);
                told.send(client.read().status).unwrap();
            });
        }
        let overloaded = Self {
            env,
            busy: Some(busy),
            statuses,
        };
        overloaded.expect(503, REFUSED);
        overloaded
    }

    /// Lets the commit thread go on.
    fn release(&mut self) {
        drop(self.busy.take());
    }

    /// Expects this status for the next responses to the first clients.
    fn expect(&self, status: u16, clients: usize) {
        for _ in 0..clients {
            assert_eq!(self.statuses.recv_timeout(TEST_TIMEOUT).unwrap(), status);
        }
    }
}

/// Builds a batch of one event, padded to a length.
fn padded(bytes: usize) -> Vec<u8> {
    let mut body = json!({"api_key": KEY, "batch": [event("e")]})
        .to_string()
        .into_bytes();
    body.resize(bytes, b' ');
    body
}

fn assert_refused(answer: &TestResponse, what: &str) {
    let told = (answer.status, answer.code());
    assert_eq!(told, (503, "overloaded".to_owned()), "{what}");
    assert_eq!(answer.header("connection"), None, "{what}");
    let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((2..=6).contains(&seconds), "{what}: {seconds}");
}

#[test]
fn a_request_is_rejected_before_its_body_is_there_and_the_connection_goes_on() {
    let mut overloaded = Overloaded::new();
    let mut client = overloaded.env.client();
    let origin = [("Origin", "https://example.com")];
    for target in ["/batch/", "/capture", "/i/v0/e/?ver=1.2.3", "/e/?ip=1"] {
        let whole = request("POST", target, &origin, &padded(600_000));
        let (beginning, rest) = whole.split_at(5_000);
        client.send(beginning);
        let answer = client.read();
        assert_refused(&answer, target);
        let mirrored = answer.header("access-control-allow-origin");
        assert_eq!(mirrored, Some("https://example.com"), "{target}");
        for piece in rest.chunks(77_777) {
            client.send(piece);
        }
    }
    let health = client.request("GET", "/_health/live", &[], b"");
    assert_eq!(health.status, 200, "what is behind a body is a request");
    overloaded.release();
    overloaded.expect(200, WAITING);
    let answer = client.post("/batch/", &[], batch(&["last"]).as_bytes());
    assert_eq!(answer.status, 200);
}

#[test]
fn pipelined_requests_are_each_answered() {
    let overloaded = Overloaded::new();
    let mut client = overloaded.env.client();
    let large = request("POST", "/batch/", &[], &padded(200_000));
    let health = request("GET", "/_health/live", &[], b"");
    let sequence = [&large, &health, &large, &large, &health].map(Vec::as_slice);
    let all = sequence.concat();
    for pieces in [all.len(), 50_000, 1_999] {
        let mut writer = client.try_clone();
        let bytes = all.clone();
        let writing = std::thread::spawn(move || {
            for piece in bytes.chunks(pieces) {
                writer.send(piece);
            }
        });
        for expected in [503, 200, 503, 503, 200] {
            assert_eq!(client.read().status, expected, "in pieces of {pieces}");
        }
        writing.join().unwrap();
    }
}

#[test]
fn an_early_reject_has_the_headers_of_every_rejection() {
    let overloaded = Overloaded::new();
    let names = |answer: &TestResponse| {
        let mut names: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names
    };
    let mut client = overloaded.env.client();
    let rejected_early = client.post("/batch/", &[], &padded(400_000));
    // A short one is not rejected early, and is read as any other.
    let read = client.post("/batch/", &[], &padded(10_000));
    assert_refused(&rejected_early, "early");
    assert_refused(&read, "by a handler");
    assert_eq!(names(&read), names(&rejected_early));
}

#[test]
fn a_client_that_goes_away_while_it_is_rejected_disturbs_no_other() {
    let mut overloaded = Overloaded::new();
    for sent in [2_100, 5_000, 100_000] {
        let mut client = overloaded.env.client();
        client.send(&request("POST", "/batch/", &[], &padded(900_000))[..sent]);
        assert_refused(&client.read(), "before the body is there");
    }
    overloaded.release();
    overloaded.expect(200, WAITING);
    assert_eq!(overloaded.env.post("/batch/", batch(&["here"])).status, 200);
}
