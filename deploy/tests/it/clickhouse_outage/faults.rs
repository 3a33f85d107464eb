//! Faults between the shipper and ClickHouse, one after the other, under load.

use super::test_env::{FAULT_EVENTS, Load, RATE, TestEnv, assert_all_acknowledged};
use crate::server::eventually;

/// Faults, each with the number of times that it strikes; for refused connections, the number of
/// attempts of the shipper.
const FAULTS: [(&str, u64); 33] = [
    // Absent, or slow.
    ("down", 4),
    ("deaf", 1),
    ("slow=300ms", 3),
    // Errors of a gateway in front of ClickHouse.
    ("answer=500", 4),
    ("answer=502", 4),
    ("answer=503", 4),
    ("after=504 inserts", 3),
    // Errors of ClickHouse, before anything is stored …
    ("answer=500:252 inserts", 4),
    ("answer=503:202", 4),
    ("answer=500:164", 4),
    ("answer=500:242 inserts", 4),
    ("answer=403:516", 4),
    ("answer=404:60 inserts", 3),
    ("answer=404:81", 4),
    ("answer=500:241", 4),
    ("answer=500:243 inserts", 4),
    ("answer=500:999 inserts", 4),
    // … with an unlisted code, so that the rows or the server may be the cause …
    ("answer=500:395 inserts", 12),
    ("answer=500:395 inserts 1/2", 8),
    // … or after.
    ("after=500:241 inserts", 3),
    ("after=500:159 inserts 1/2", 3),
    // Success with an exception in the head: not stored, and stored.
    ("answer=200:241 inserts", 4),
    ("after=200:241 inserts", 3),
    // Success that is not ClickHouse's: of a gateway that stores nothing, or drops headers.
    ("answer=200", 4),
    ("answer=200 inserts", 4),
    ("after=200 inserts", 3),
    // Genuine answers of ClickHouse's to earlier requests: of a gateway that caches.
    ("stale-answer", 4),
    ("stale-answer inserts", 4),
    // A lost response or request.
    ("lost inserts", 3),
    ("lost 1/2", 4),
    ("silent inserts", 1),
    ("cut-answer=40", 4),
    ("cut-request inserts", 4),
];

/// Faults that leave an insert in doubt, or certainly not stored.
const IN_DOUBT: [&str; 5] = [
    "lost",
    "silent inserts",
    "after=504 inserts",
    "stale-answer",
    "down",
];

#[test]
fn a_server_killed_during_a_fault_resumes_without_loss() {
    let mut env = TestEnv::start(&[]);
    for rule in IN_DOUBT {
        let load = Load::start(env.plan(RATE));
        env.until_shipping();
        let before = env.proxy.counts().faults;
        env.proxy.set(rule.parse().unwrap());
        load.until_acknowledged(FAULT_EVENTS);
        eventually(rule, || {
            (rule == "down" || env.proxy.counts().faults > before).then_some(())
        });
        assert_all_acknowledged(&load.end());
        env.restart_server();
        env.proxy.lift();
    }
    env.assert_exactly_once("millrace.events");
}

#[test]
fn no_fault_between_shipper_and_clickhouse_loses_or_doubles_an_event() {
    let env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    for (rule, strikes) in FAULTS {
        env.endure(&load, rule, strikes);
    }
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once("millrace.events");
    // No row is a dead letter.
    assert_eq!(
        env.metric("millrace_insert_rows_dead_lettered_total", ""),
        0.0
    );
}
