//! A crowded core: who is sent away is told at once, unread, and the connection goes on.

use crate::client::{Answer, request};
use crate::stand::{KEY, Stand, batch, event};
use millrace_pipeline::Slot;
use millrace_rows::Lane;
use serde_json::json;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

const MIB: usize = 1 << 20;
/// How long a test waits before it fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a request is counted for beside its bytes.
const REQUEST_BYTES: usize = 4 << 10;
/// Requests of half a MiB that fill what one project may have of the queue.
const WAITING: usize = 8;
/// Those that do not fit.
const REFUSED: usize = 8;

/// A server with one worker whose commit thread has its hands full, and whose queue holds all that
/// one project may have there.
struct Crowded {
    /// Dropped before the server ends, which waits for its commit thread.
    busy: Option<Slot>,
    stand: Stand,
    statuses: Receiver<u16>,
}

impl Crowded {
    fn new() -> Self {
        let stand = Stand::with(|options| {
            options.server.workers = 1;
            options.server.limits.waiting_bytes_max = WAITING * MIB;
        });
        assert_eq!(stand.post("/batch/", batch(&["first"])).status, 200);
        let mut busy = stand.pipeline.reserve(Lane::Live, 40 * MIB).unwrap();
        busy.hand_over();
        let large = request("POST", "/batch/", &[], &padded(MIB / 2 - REQUEST_BYTES));
        let (told, statuses) = sync_channel(100);
        for _ in 0..WAITING + REFUSED {
            let (mut client, told, large) = (stand.client(), told.clone(), large.clone());
            std::thread::spawn(move || {
                client.send(&large);
                told.send(client.read().status).unwrap();
            });
        }
        let crowded = Self {
            stand,
            busy: Some(busy),
            statuses,
        };
        crowded.expect(503, REFUSED);
        crowded
    }

    /// The commit thread has time again.
    fn release(&mut self) {
        drop(self.busy.take());
    }

    /// So many of those that came first are told this next.
    fn expect(&self, status: u16, clients: usize) {
        for _ in 0..clients {
            assert_eq!(self.statuses.recv_timeout(PATIENCE).unwrap(), status);
        }
    }
}

/// A batch of one event, as long as asked for.
fn padded(bytes: usize) -> Vec<u8> {
    let mut body = json!({"api_key": KEY, "batch": [event("e")]})
        .to_string()
        .into_bytes();
    body.resize(bytes, b' ');
    body
}

fn assert_refused(answer: &Answer, what: &str) {
    let told = (answer.status, answer.code());
    assert_eq!(told, (503, "overloaded".to_owned()), "{what}");
    assert_eq!(answer.header("connection"), None, "{what}");
    let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((2..=6).contains(&seconds), "{what}: {seconds}");
}

#[test]
fn who_is_sent_away_is_told_before_the_body_is_there_and_the_connection_goes_on() {
    let mut crowded = Crowded::new();
    let mut client = crowded.stand.client();
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
    crowded.release();
    crowded.expect(200, WAITING);
    let answer = client.post("/batch/", &[], batch(&["last"]).as_bytes());
    assert_eq!(answer.status, 200);
}

#[test]
fn requests_behind_one_another_are_each_answered() {
    let crowded = Crowded::new();
    let mut client = crowded.stand.client();
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
fn the_words_are_those_that_everybody_gets() {
    let crowded = Crowded::new();
    let names = |answer: &Answer| {
        let mut names: Vec<_> = answer
            .headers
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        names.sort();
        names
    };
    let mut client = crowded.stand.client();
    let at_the_door = client.post("/batch/", &[], &padded(400_000));
    // A short one is not worth a look, and is read as any other.
    let read = client.post("/batch/", &[], &padded(10_000));
    assert_refused(&at_the_door, "at the door");
    assert_refused(&read, "behind it");
    assert_eq!(names(&read), names(&at_the_door));
}

#[test]
fn a_client_that_goes_away_while_it_is_sent_away_disturbs_nobody() {
    let mut crowded = Crowded::new();
    for sent in [2_100, 5_000, 100_000] {
        let mut client = crowded.stand.client();
        client.send(&request("POST", "/batch/", &[], &padded(900_000))[..sent]);
        assert_refused(&client.read(), "before the body is there");
    }
    crowded.release();
    crowded.expect(200, WAITING);
    assert_eq!(crowded.stand.post("/batch/", batch(&["here"])).status, 200);
}
