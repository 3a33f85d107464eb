//! Faults of the real engine.

use super::test_env::{Load, PASSWORD, TestEnv, assert_all_acknowledged, fault_length};
use crate::server::eventually;
use serde_json::json;

/// Events per second.
const RATE: f64 = 2_000.0;
/// Least number of failed attempts under each fault.
const RETRIES: u64 = 4;

/// Table of events, and the renamed one before it: not the views with similar names, which have the
/// rows once more.
const EVERYWHERE: &str = "merge('millrace', '^events(_before)?$')";

type FaultStep = fn(&mut TestEnv);

/// Faults of the engine: name, injection and repair.
const FAULTS: [(&str, FaultStep, FaultStep); 7] = [
    (
        "killed and started again",
        |env| env.engine.kill(),
        |env| env.restart_engine(PASSWORD),
    ),
    (
        "another password",
        |env| {
            env.engine.kill();
            env.restart_engine("changed");
        },
        |env| {
            env.engine.kill();
            env.restart_engine(PASSWORD);
        },
    ),
    (
        "a user who may only read",
        |env| env.proxy.set("with=readonly=1".parse().unwrap()),
        |env| env.proxy.lift(),
    ),
    (
        "out of memory",
        |env| {
            let rule = "with=max_memory_usage=1000 inserts";
            env.proxy.set(rule.parse().unwrap());
        },
        |env| env.proxy.lift(),
    ),
    (
        "too many parts",
        |env| alter(env, "MODIFY SETTING parts_to_throw_insert = 1"),
        |env| alter(env, "RESET SETTING parts_to_throw_insert"),
    ),
    (
        "a table detached",
        |env| drop(env.engine.query("DETACH TABLE millrace.events")),
        |env| drop(env.engine.query("ATTACH TABLE millrace.events")),
    ),
    (
        "a table without the columns",
        |env| alter(env, "RENAME COLUMN properties TO other"),
        |env| alter(env, "RENAME COLUMN other TO properties"),
    ),
];

fn alter(env: &TestEnv, what: &str) {
    env.engine
        .query(&format!("ALTER TABLE millrace.events {what}"));
}

#[test]
fn no_fault_of_the_engine_loses_or_doubles_an_event() {
    let mut env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    for (what, inject, fix) in FAULTS {
        let before = env.retries();
        inject(&mut env);
        env.until_retries(before, RETRIES);
        std::thread::sleep(fault_length());
        fix(&mut env);
        env.until_shipping();
        eprintln!("{what}: over");
    }
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once("millrace.events");
}

#[test]
fn events_ship_while_person_updates_are_rejected() {
    const UPDATES: u32 = 8;
    let env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    env.until_shipping();
    let alter = |what: &str| {
        env.engine
            .query(&format!("ALTER TABLE millrace.person_updates {what}"))
    };
    let updates = || {
        env.engine
            .query("SELECT count() FROM millrace.person_updates")
    };
    let events = || env.metric("millrace_insert_rows_total", "table=\"events\"");
    alter("RENAME COLUMN person_unset TO other");
    let retries = env.retries();
    // More inserts than a lane has in flight, if each update had an insert of its own.
    for number in 0..UPDATES {
        let before = events();
        let event = json!({
            "event": "$set", "distinct_id": format!("user-{number}"),
            "properties": {"$set": {"number": number}},
        });
        env.server.capture(&json!([event]));
        eventually("events beside an update", || {
            (events() > before).then_some(())
        });
    }
    env.until_retries(retries, RETRIES);
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
fn a_renamed_table_is_recreated_and_both_tables_hold_every_event_once() {
    let env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    env.until_shipping();
    env.engine
        .query("RENAME TABLE millrace.events TO millrace.events_before");
    eventually("a new table", || {
        (env.engine.query("EXISTS millrace.events") == "1").then_some(())
    });
    env.engine.stop_merges("millrace.events");
    env.until_shipping();
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once(EVERYWHERE);
}
