//! How far a node says it is, with a shipper that the test plays: what it says is shipped.

use crate::client::Client;
use crate::stand::{KEY, NOW, Stand, batch};
use millrace_pipeline::Ack;
use millrace_rows::Micros;
use millrace_rows::testing::Event;
use serde_json::json;
use std::time::Duration;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Requests during which what must not happen had better happen.
const MEANWHILE: usize = 30;

fn at(seconds: i64) -> Micros {
    Micros(NOW.0 + seconds * SECOND)
}

fn post(stand: &Stand, name: &str) {
    assert_eq!(stand.post("/batch/", batch(&[name])).status, 200);
}

/// Passes a while, in which whoever advances the watermark has its chance.
fn meanwhile(stand: &Stand) {
    for _ in 0..MEANWHILE {
        post(stand, "meanwhile");
        stand.ship();
    }
}

/// Begins to post a batch, and returns when the server reads the body, with what is left of it.
fn begin(stand: &Stand, name: &str) -> (Client, Vec<u8>) {
    let body = batch(&[name]).into_bytes();
    let mut client = stand.client();
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    assert!(client.read_once().starts_with(b"HTTP/1.1 100"));
    client.send(&body[..10]);
    (client, body[10..].to_vec())
}

fn event(stand: &Stand, name: &str) -> Event {
    let rows = stand.rows();
    let mut found = rows.events.into_iter().filter(|event| event.event == name);
    found.next().unwrap()
}

#[test]
fn a_node_without_work_goes_with_the_clock() {
    let stand = Stand::start();
    for seconds in [0, 5, 6, 30] {
        stand.clock.set(at(seconds));
        stand.until_watermark(at(seconds));
        assert_eq!(stand.watermark(), Some(at(seconds)), "it does not go ahead");
    }
}

#[test]
fn rows_of_either_lane_that_are_not_shipped_hold_it_whatever_is_acknowledged() {
    for ack in [Ack::Disk, Ack::Memory] {
        for target in ["/batch/", "/batch/?historical_migration=true"] {
            let stand = Stand::with(|options| options.pipeline.ack = ack);
            stand.until_watermark(NOW);
            stand.clock.set(at(5));
            assert_eq!(stand.post(target, batch(&["waits"])).status, 200);
            stand.clock.set(at(9));
            for _ in 0..MEANWHILE {
                post(&stand, "meanwhile");
            }
            assert!(stand.watermark() <= Some(at(5)), "{ack:?} {target}");
            stand.until_stored(1 + MEANWHILE);
            stand.ship();
            stand.until_watermark(at(9));
            assert_eq!(event(&stand, "waits").created_at, at(5));
        }
    }
}

#[test]
fn a_request_whose_body_is_under_way_holds_it() {
    // However slow the disk is meanwhile.
    let stand = Stand::with(|options| {
        options.server.limits.body_hold = Duration::MAX;
        options.wait_at_most(Duration::from_secs(3_600));
    });
    stand.until_watermark(NOW);
    let (mut client, rest) = begin(&stand, "slow");
    stand.until_next_epoch();
    stand.clock.set(at(5));
    meanwhile(&stand);
    assert_eq!(stand.watermark(), Some(NOW));
    client.send(&rest);
    assert_eq!(client.read().status, 200);
    stand.ship();
    stand.until_watermark(at(5));
    assert_eq!(event(&stand, "slow").created_at, NOW);
}

#[test]
fn a_body_that_takes_too_long_holds_it_no_more_and_arrives_when_it_is_there() {
    let stand = Stand::with(|options| options.server.limits.body_hold = Duration::ZERO);
    stand.until_watermark(NOW);
    let (mut client, rest) = begin(&stand, "slow");
    stand.clock.set(at(5));
    stand.until_watermark(at(5));
    stand.clock.set(at(7));
    client.send(&rest);
    assert_eq!(client.read().status, 200);
    assert_eq!(event(&stand, "slow").created_at, at(7));
}

#[test]
fn a_body_that_never_comes_holds_it_no_longer_than_a_slow_one() {
    let stand = Stand::with(|options| {
        options.server.limits.body_hold = Duration::from_millis(50);
        options.server.limits.body_stall_timeout = Duration::from_secs(3_600);
    });
    stand.until_watermark(NOW);
    let mut client = stand.client();
    let head = "POST /batch/ HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n";
    client.send(format!("{head}Content-Length: 100\r\n\r\n").as_bytes());
    assert!(client.read_once().starts_with(b"HTTP/1.1 100"));
    stand.clock.set(at(5));
    stand.until_watermark(at(5));
}

#[test]
fn a_client_that_went_away_holds_nobody_up() {
    let stand = Stand::start();
    stand.until_watermark(NOW);
    let (client, _) = begin(&stand, "gone");
    stand.until_next_epoch();
    stand.clock.set(at(5));
    drop(client);
    stand.until_watermark(at(5));
}

#[test]
fn requests_that_leave_no_row_hold_nobody_up() {
    let stand = Stand::start();
    for (number, (target, body, status)) in (1..).zip([
        ("/batch/?dry_run=true", batch(&["dry"]), 200),
        ("/batch/", "nonsense".to_owned(), 400),
        ("/batch/", batch(&[]), 400),
        ("/decide/", "{}".to_owned(), 200),
    ]) {
        assert_eq!(stand.post(target, &body).status, status, "{target} {body}");
        stand.clock.set(at(number));
        stand.until_watermark(at(number));
    }
}

#[test]
fn a_clock_that_goes_back_makes_no_row_where_exports_may_have_been() {
    let stand = Stand::start();
    stand.until_watermark(NOW);
    stand.clock.set(at(-HOUR));
    let timeless = json!({"api_key": KEY, "batch": [{"event": "back", "distinct_id": "d"}]});
    assert_eq!(stand.post("/batch/", timeless.to_string()).status, 200);
    let back = event(&stand, "back");
    assert_eq!((back.created_at, back.timestamp), (NOW, at(-HOUR)));
    stand.ship();
    stand.clock.set(at(5));
    stand.until_watermark(at(5));
}

#[test]
fn a_start_with_a_clock_that_is_behind_makes_no_row_where_exports_may_have_been() {
    let stand = Stand::with(|options| options.floor = Some(at(HOUR)));
    post(&stand, "early");
    assert_eq!(event(&stand, "early").created_at, at(HOUR));
    stand.ship();
    stand.until_watermark(at(HOUR));
    stand.clock.set(at(HOUR + 5));
    stand.until_watermark(at(HOUR + 5));
}

#[test]
fn a_clock_that_jumps_ahead_by_mistake_freezes_nothing() {
    let stand = Stand::start();
    stand.until_watermark(NOW);
    stand.clock.set(at(DAY));
    post(&stand, "ahead");
    stand.ship();
    stand.until_watermark(Micros(NOW.0 + 1));
    assert!(stand.watermark() < Some(at(HOUR)), "it does not follow");
    assert_eq!(event(&stand, "ahead").created_at, at(DAY));
    stand.clock.set(at(1));
    post(&stand, "right again");
    let again = event(&stand, "right again").created_at;
    assert!(again >= at(1) && again < at(HOUR), "{again:?}");
    stand.ship();
    stand.clock.set(at(30));
    stand.until_watermark(at(30));
}
