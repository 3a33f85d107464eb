//! Faults of the real engine: nothing is made up here.

use super::stand::{Load, PASSWORD, Stand, assert_all_acknowledged, fault_length};
use crate::server::eventually;
use serde_json::json;

/// Events due per second.
const RATE: f64 = 2_000.0;
/// Times that the shipper runs into each fault, at least.
const RETRIES: u64 = 4;

/// The table that events go to, and the one that it was: no view of events, which is called alike
/// and has their rows once more.
const EVERYWHERE: &str = "merge('millrace', '^events(_before)?$')";

type Harm = fn(&mut Stand);

/// What is done to the engine, and how it is undone.
const FAULTS: [(&str, Harm, Harm); 7] = [
    (
        "killed and started again",
        |stand| stand.engine.kill(),
        |stand| stand.restart_engine(PASSWORD),
    ),
    (
        "another password",
        |stand| {
            stand.engine.kill();
            stand.restart_engine("changed");
        },
        |stand| {
            stand.engine.kill();
            stand.restart_engine(PASSWORD);
        },
    ),
    (
        "a user who may only read",
        |stand| stand.proxy.set("with=readonly=1".parse().unwrap()),
        |stand| stand.proxy.lift(),
    ),
    (
        "out of memory",
        |stand| {
            let rule = "with=max_memory_usage=1000 inserts";
            stand.proxy.set(rule.parse().unwrap());
        },
        |stand| stand.proxy.lift(),
    ),
    (
        "too many parts",
        |stand| alter(stand, "MODIFY SETTING parts_to_throw_insert = 1"),
        |stand| alter(stand, "RESET SETTING parts_to_throw_insert"),
    ),
    (
        "a table detached",
        |stand| drop(stand.engine.query("DETACH TABLE millrace.events")),
        |stand| drop(stand.engine.query("ATTACH TABLE millrace.events")),
    ),
    (
        "a table without the columns",
        |stand| alter(stand, "RENAME COLUMN properties TO other"),
        |stand| alter(stand, "RENAME COLUMN other TO properties"),
    ),
];

fn alter(stand: &Stand, what: &str) {
    stand
        .engine
        .query(&format!("ALTER TABLE millrace.events {what}"));
}

#[test]
fn no_fault_of_the_engine_itself_loses_or_doubles_an_event() {
    let mut stand = Stand::start(&[]);
    let load = Load::start(stand.plan(RATE));
    for (what, harm, mend) in FAULTS {
        let before = stand.retries();
        harm(&mut stand);
        stand.until_retries(before, RETRIES);
        std::thread::sleep(fault_length());
        mend(&mut stand);
        stand.until_shipping();
        eprintln!("{what}: over");
    }
    assert_all_acknowledged(&load.end());
    stand.assert_exactly_once("millrace.events");
}

#[test]
fn events_ship_while_updates_of_persons_are_refused() {
    const UPDATES: u32 = 8;
    let stand = Stand::start(&[]);
    let load = Load::start(stand.plan(RATE));
    stand.until_shipping();
    let alter = |what: &str| {
        stand
            .engine
            .query(&format!("ALTER TABLE millrace.person_updates {what}"))
    };
    let updates = || {
        stand
            .engine
            .query("SELECT count() FROM millrace.person_updates")
    };
    let events = || stand.metric("millrace_insert_rows_total", "table=\"events\"");
    alter("RENAME COLUMN person_unset TO other");
    let retries = stand.retries();
    // More inserts than a lane has places, if each had one of its own.
    for number in 0..UPDATES {
        let before = events();
        let event = json!({
            "event": "$set", "distinct_id": format!("user-{number}"),
            "properties": {"$set": {"number": number}},
        });
        stand.server.capture(&json!([event]));
        eventually("events beside an update", || {
            (events() > before).then_some(())
        });
    }
    stand.until_retries(retries, RETRIES);
    std::thread::sleep(fault_length());
    let before = events();
    eventually("events of two seconds while updates are refused", || {
        (events() > before + 2.0 * RATE).then_some(())
    });
    assert_eq!(updates(), "0", "nothing was refused");
    alter("RENAME COLUMN other TO person_unset");
    eventually("the updates", || {
        (updates() == UPDATES.to_string()).then_some(())
    });
    assert_all_acknowledged(&load.end());
}

#[test]
fn a_table_taken_away_is_made_anew_and_both_hold_every_event_once() {
    let stand = Stand::start(&[]);
    let load = Load::start(stand.plan(RATE));
    stand.until_shipping();
    stand
        .engine
        .query("RENAME TABLE millrace.events TO millrace.events_before");
    eventually("a new table", || {
        (stand.engine.query("EXISTS millrace.events") == "1").then_some(())
    });
    stand.engine.stop_merges("millrace.events");
    stand.until_shipping();
    assert_all_acknowledged(&load.end());
    stand.assert_exactly_once(EVERYWHERE);
}
