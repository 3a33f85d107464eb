//! What can happen between the shipper and ClickHouse, one after the other, under load.

use super::stand::{FAULT_EVENTS, Load, RATE, Stand, assert_all_acknowledged};
use crate::server::eventually;

/// Each with the number of times that it is to strike; of one that refuses connections, so many tries
/// of the shipper.
const FAULTS: [(&str, u64); 31] = [
    // Away, or slow.
    ("down", 4),
    ("deaf", 1),
    ("slow=300ms", 3),
    // A gateway in front of it has its own opinion.
    ("answer=500", 4),
    ("answer=502", 4),
    ("answer=503", 4),
    ("after=504 inserts", 3),
    // ClickHouse refuses, before anything is stored …
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
    // … with a code that is not listed, so that rows or server may be to blame …
    ("answer=500:395 inserts", 12),
    ("answer=500:395 inserts 1/2", 8),
    // … or after it is.
    ("after=500:241 inserts", 3),
    ("after=500:159 inserts 1/2", 3),
    // Success, with an exception in the head: not stored, and stored.
    ("answer=200:241 inserts", 4),
    ("after=200:241 inserts", 3),
    // Success, which is not ClickHouse's: of a gateway that stores nothing, or of one that drops headers.
    ("answer=200", 4),
    ("answer=200 inserts", 4),
    ("after=200 inserts", 3),
    // The answer or the request gets lost on its way.
    ("lost inserts", 3),
    ("lost 1/2", 4),
    ("silent inserts", 1),
    ("cut-answer=40", 4),
    ("cut-request inserts", 4),
];

/// What leaves an insert in doubt, or certainly undone.
const IN_DOUBT: [&str; 4] = ["lost", "silent inserts", "after=504 inserts", "down"];

#[test]
fn a_server_killed_in_the_middle_of_a_fault_goes_on_where_it_was() {
    let mut stand = Stand::start(&[]);
    for rule in IN_DOUBT {
        let load = Load::start(stand.plan(RATE));
        stand.until_shipping();
        let before = stand.proxy.counts().faults;
        stand.proxy.set(rule.parse().unwrap());
        load.until_acknowledged(FAULT_EVENTS);
        eventually(rule, || {
            (rule == "down" || stand.proxy.counts().faults > before).then_some(())
        });
        assert_all_acknowledged(&load.end());
        stand.restart_server();
        stand.proxy.lift();
    }
    stand.assert_exactly_once("millrace.events");
}

#[test]
fn no_fault_on_the_way_to_clickhouse_loses_or_doubles_an_event() {
    let stand = Stand::start(&[]);
    let load = Load::start(stand.plan(RATE));
    for (rule, strikes) in FAULTS {
        stand.endure(&load, rule, strikes);
    }
    assert_all_acknowledged(&load.end());
    stand.assert_exactly_once("millrace.events");
    // Nothing of this is the rows' fault.
    assert_eq!(
        stand.metric("millrace_insert_rows_set_aside_total", ""),
        0.0
    );
}
