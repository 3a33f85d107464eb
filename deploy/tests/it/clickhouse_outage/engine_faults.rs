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
            env.restart_engine("changed-password-of-tests");
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

type Rejection = fn(&TestEnv);

/// Rejections of person updates: name, injection and repair.
const REJECTIONS: [(&str, Rejection, Rejection); 2] = [
    (
        "a column is missing",
        |env| alter_updates(env, "RENAME COLUMN person_unset TO other"),
        |env| alter_updates(env, "RENAME COLUMN other TO person_unset"),
    ),
    (
        "a right is missing",
        |env| {
            let rule = "answer=403:497 inserts=person_updates";
            env.proxy.set(rule.parse().unwrap());
        },
        |env| env.proxy.lift(),
    ),
];

fn alter_updates(env: &TestEnv, what: &str) {
    env.engine
        .query(&format!("ALTER TABLE millrace.person_updates {what}"));
}

#[test]
fn events_ship_while_person_updates_are_rejected() {
    const UPDATES: usize = 8;
    let env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    env.until_shipping();
    let updates = || {
        let count = "SELECT count() FROM millrace.person_updates";
        env.engine.query(count).parse::<usize>().unwrap()
    };
    let events = || env.metric("millrace_insert_rows_total", "table=\"events\"");
    for (nth, (what, inject, fix)) in REJECTIONS.into_iter().enumerate() {
        inject(&env);
        let retries = env.retries();
        // More inserts than a lane has in flight, if each update had an insert of its own.
        for number in 0..UPDATES {
            let before = events();
            let event = json!({
                "event": "$set", "distinct_id": format!("user-{nth}-{number}"),
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
        assert_eq!(updates(), nth * UPDATES, "nothing was refused: {what}");
        fix(&env);
        eventually("the updates", || {
            (updates() == (nth + 1) * UPDATES).then_some(())
        });
    }
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once("millrace.events");
    assert_eq!(updates(), REJECTIONS.len() * UPDATES);
}

#[test]
fn events_of_other_months_ship_while_one_month_has_too_many_parts() {
    const EVENTS: usize = 8;
    let env = TestEnv::start(&[]);
    let load = Load::start(env.plan(RATE));
    env.until_shipping();
    let month = env.engine.query("SELECT toYYYYMM(now('UTC'))");
    let earlier = env.engine.query("SELECT toDate(now('UTC')) - 62");
    let retries = env.retries();
    let rule = format!("answer=500:252 inserts=-events-{month}-");
    env.proxy.set(rule.parse().unwrap());
    env.until_retries(retries, RETRIES);
    let of_earlier = || {
        let count = "SELECT count() FROM millrace.events WHERE event = 'earlier'";
        env.engine.query(count).parse::<usize>().unwrap()
    };
    for number in 0..EVENTS {
        let event = json!({
            "event": "earlier", "distinct_id": format!("user-{number}"),
            "timestamp": format!("{earlier}T12:00:00Z"),
        });
        env.server.capture(&json!([event]));
        eventually("an event of another month", || {
            (of_earlier() == number + 1).then_some(())
        });
    }
    // The month still waits.
    env.until_retries(env.retries(), 1);
    std::thread::sleep(fault_length());
    env.proxy.lift();
    env.until_shipping();
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once("millrace.events");
    assert_eq!(of_earlier(), EVENTS);
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
