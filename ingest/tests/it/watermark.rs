//! Watermark of a node, with a shipper that the test plays.

use crate::client::Client;
use crate::test_env::{KEY, NOW, TestEnv, batch};
use millrace_pipeline::Ack;
use millrace_rows::Micros;
use millrace_rows::testing::Event;
use serde_json::json;
use std::time::Duration;

const SECOND: i64 = 1_000_000;
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Requests during which something that must not happen has time to happen.
const MEANWHILE: usize = 30;

fn at(seconds: i64) -> Micros {
    Micros(NOW.0 + seconds * SECOND)
}

fn post(env: &TestEnv, name: &str) {
    assert_eq!(env.post("/batch/", batch(&[name])).status, 200);
}

/// Sends requests, and gives the watermark time to advance.
fn meanwhile(env: &TestEnv) {
    for _ in 0..MEANWHILE {
        post(env, "meanwhile");
        env.ship();
    }
}

/// Begins to post a batch; returns once the server reads the body, with the rest of it.
fn begin(env: &TestEnv, name: &str) -> (Client, Vec<u8>) {
    let body = batch(&[name]).into_bytes();
    let mut client = env.client();
    let head = format!(
        "POST /batch/ HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes());
    assert!(client.read_once().starts_with(b"HTTP/1.1 100"));
    client.send(&body[..10]);
    (client, body[10..].to_vec())
}

fn event(env: &TestEnv, name: &str) -> Event {
    let rows = env.rows();
    let mut found = rows.events.into_iter().filter(|event| event.event == name);
    found.next().unwrap()
}

/// Begins to post a batch; returns once the watermark waits for it.
fn begin_and_be_waited_for(env: &TestEnv, name: &str) -> (Client, Vec<u8>) {
    loop {
        let epoch = env.epoch();
        let begun = begin(env, name);
        // Otherwise it is not known which of the epochs it is in; the next one does not begin while
        // it is waited for.
        if env.epoch() == epoch {
            env.until_epoch_after(epoch);
            return begun;
        }
    }
}

#[test]
fn the_watermark_of_an_idle_node_follows_the_clock() {
    let env = TestEnv::start();
    for seconds in [0, 5, 6, 30] {
        env.clock.set(at(seconds));
        env.until_watermark(at(seconds));
        assert_eq!(env.watermark(), Some(at(seconds)), "it does not go ahead");
    }
}

#[test]
fn unshipped_rows_of_either_lane_hold_the_watermark_in_every_acknowledgement_mode() {
    for ack in [Ack::Disk, Ack::Memory] {
        for target in ["/batch/", "/batch/?historical_migration=true"] {
            let env = TestEnv::with(|options| options.pipeline.ack = ack);
            env.until_watermark(NOW);
            env.clock.set(at(5));
            assert_eq!(env.post(target, batch(&["waits"])).status, 200);
            env.clock.set(at(9));
            for _ in 0..MEANWHILE {
                post(&env, "meanwhile");
            }
            assert!(env.watermark() <= Some(at(5)), "{ack:?} {target}");
            env.until_stored(1 + MEANWHILE);
            env.ship();
            env.until_watermark(at(9));
            assert_eq!(event(&env, "waits").created_at, at(5));
        }
    }
}

#[test]
fn person_updates_pass_while_other_rows_wait_to_be_shipped() {
    let env = TestEnv::start();
    env.until_watermark(NOW);
    env.clock.set(at(5));
    post(&env, "waits");
    env.clock.set(at(9));
    env.ship_updates();
    env.until_updates_watermark(at(9));
    assert!(env.watermark() <= Some(at(5)));
    env.clock.set(at(12));
    env.ship();
    env.until_watermark(at(9));
    assert!(env.updates_watermark() >= env.watermark());
}

#[test]
fn a_request_whose_body_is_under_way_holds_the_watermark() {
    // Limits that a slow disk does not reach.
    let env = TestEnv::with(|options| {
        options.server.limits.body_hold = Duration::MAX;
        options.wait_at_most(Duration::from_secs(3_600));
    });
    env.until_watermark(NOW);
    let (mut client, rest) = begin_and_be_waited_for(&env, "slow");
    env.clock.set(at(5));
    meanwhile(&env);
    assert_eq!(env.watermark(), Some(NOW));
    client.send(&rest);
    assert_eq!(client.read().status, 200);
    env.ship();
    env.until_watermark(at(5));
    assert_eq!(event(&env, "slow").created_at, NOW);
}

#[test]
fn a_body_that_takes_too_long_releases_the_watermark_and_gets_a_later_created_at() {
    let env = TestEnv::with(|options| options.server.limits.body_hold = Duration::ZERO);
    env.until_watermark(NOW);
    let (mut client, rest) = begin(&env, "slow");
    env.clock.set(at(5));
    env.until_watermark(at(5));
    env.clock.set(at(7));
    client.send(&rest);
    assert_eq!(client.read().status, 200);
    assert_eq!(event(&env, "slow").created_at, at(7));
}

#[test]
fn rows_of_a_large_body_get_the_time_at_which_they_are_complete() {
    let env = TestEnv::with(|options| options.server.limits.body_hold = Duration::MAX);
    env.until_watermark(NOW);
    let padding = "x".repeat(64 << 10);
    let events: Vec<_> = (0..100)
        .map(|number| match number {
            0 => json!({"event": "", "distinct_id": "d"}),
            1 => json!({"event": "$set", "distinct_id": "d", "properties": {"$set": {"a": 1}}}),
            _ => json!({"event": "large", "distinct_id": "d", "properties": {"a": padding}}),
        })
        .collect();
    let body = json!({"api_key": KEY, "batch": events}).to_string();
    let mut client = env.client();
    let head = "POST /batch/ HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n";
    client.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    assert!(client.read_once().starts_with(b"HTTP/1.1 100"));
    env.clock.set(at(5));
    client.send(body.as_bytes());
    assert_eq!(client.read().status, 200);
    let rows = env.rows();
    assert_eq!((rows.events.len(), rows.rejected.len()), (99, 1));
    assert!(rows.events.iter().all(|it| it.created_at == at(5)));
    assert!(rows.events.iter().all(|it| it.timestamp == NOW), "as sent");
    assert_eq!(rows.rejected[0].received_at, at(5));
    assert!(!rows.person_updates.is_empty());
    assert!(rows.person_updates.iter().all(|it| it.created_at == at(5)));
    env.ship();
    env.until_watermark(at(5));
}

#[test]
fn a_body_that_never_comes_holds_the_watermark_no_longer_than_a_slow_one() {
    let env = TestEnv::with(|options| {
        options.server.limits.body_hold = Duration::from_millis(50);
        options.server.limits.body_stall_timeout = Duration::from_secs(3_600);
    });
    env.until_watermark(NOW);
    let mut client = env.client();
    let head = "POST /batch/ HTTP/1.1\r\nHost: test\r\nExpect: 100-continue\r\n";
    client.send(format!("{head}Content-Length: 100\r\n\r\n").as_bytes());
    assert!(client.read_once().starts_with(b"HTTP/1.1 100"));
    env.clock.set(at(5));
    env.until_watermark(at(5));
}

#[test]
fn a_client_that_went_away_does_not_hold_the_watermark() {
    let env = TestEnv::start();
    env.until_watermark(NOW);
    let (client, _) = begin_and_be_waited_for(&env, "gone");
    env.clock.set(at(5));
    drop(client);
    env.until_watermark(at(5));
}

#[test]
fn requests_without_rows_do_not_hold_the_watermark() {
    let env = TestEnv::start();
    for (number, (target, body, status)) in (1..).zip([
        ("/batch/?dry_run=true", batch(&["dry"]), 200),
        ("/batch/", "nonsense".to_owned(), 400),
        ("/batch/", batch(&[]), 400),
        ("/decide/", "{}".to_owned(), 200),
    ]) {
        assert_eq!(env.post(target, &body).status, status, "{target} {body}");
        env.clock.set(at(number));
        env.until_watermark(at(number));
    }
}

#[test]
fn a_clock_that_goes_back_makes_no_row_before_the_watermark() {
    let env = TestEnv::start();
    env.until_watermark(NOW);
    env.clock.set(at(-HOUR));
    let timeless = json!({"api_key": KEY, "batch": [{"event": "back", "distinct_id": "d"}]});
    assert_eq!(env.post("/batch/", timeless.to_string()).status, 200);
    let back = event(&env, "back");
    assert_eq!((back.created_at, back.timestamp), (NOW, at(-HOUR)));
    env.ship();
    env.clock.set(at(5));
    env.until_watermark(at(5));
}

#[test]
fn a_start_with_a_clock_that_is_behind_makes_no_row_before_min_created_at() {
    let env = TestEnv::with(|options| options.min_created_at = Some(at(HOUR)));
    post(&env, "early");
    assert_eq!(event(&env, "early").created_at, at(HOUR));
    env.ship();
    env.until_watermark(at(HOUR));
    env.clock.set(at(HOUR + 5));
    env.until_watermark(at(HOUR + 5));
}

#[test]
fn a_clock_that_jumps_ahead_by_mistake_does_not_freeze_created_at() {
    let env = TestEnv::start();
    env.until_watermark(NOW);
    env.clock.set(at(DAY));
    post(&env, "ahead");
    env.ship();
    env.until_watermark(Micros(NOW.0 + 1));
    assert!(env.watermark() < Some(at(HOUR)), "it does not follow");
    assert_eq!(event(&env, "ahead").created_at, at(DAY));
    env.clock.set(at(1));
    post(&env, "right again");
    let again = event(&env, "right again").created_at;
    assert!(again >= at(1) && again < at(HOUR), "{again:?}");
    env.ship();
    env.clock.set(at(30));
    env.until_watermark(at(30));
}
