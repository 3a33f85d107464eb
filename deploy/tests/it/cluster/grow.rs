//! A cluster that gets another shard, by the steps of the guide.

use super::test_env::{ClusterEnv, send};
use crate::server::{eventually, run};

const EVENTS: u32 = 300;

/// Rows of the events on each shard.
fn rows_of_shards(env: &ClusterEnv) -> Vec<u64> {
    let counts = env.on_each("SELECT count() FROM millrace.events_local");
    counts.iter().map(|count| count.parse().unwrap()).collect()
}

/// Waits until the events of a request are stored.
fn until_stored(env: &ClusterEnv, request: &str, events: u64) {
    env.until_counts("events", request, |counts| {
        counts.get(request) == Some(&(events, events))
    });
}

/// Waits until every shard has the same persons, and as many.
fn until_persons(env: &ClusterEnv, expected: u32) {
    let sql = "SELECT uniqExact(id) FROM millrace.persons";
    eventually("persons on every shard", || {
        let counts = env.on_each(sql);
        let expected = expected.to_string();
        counts.iter().all(|count| *count == expected).then_some(())
    });
}

#[test]
fn another_shard_gets_its_share_of_new_events_and_all_persons() {
    let mut env = ClusterEnv::start(2, 1);
    let to = env.ingest_addresses()[0];
    assert!(send(to, env.key(), "before", EVENTS, None));
    let all = u64::from(EVENTS);
    until_stored(&env, "before", all);
    until_persons(&env, EVENTS);
    let before = rows_of_shards(&env);
    assert!(before.iter().all(|rows| *rows > all / 4), "{before:?}");

    // 1. The new engine, then the others, with the addresses of all.
    env.add_shard();
    for number in [2, 0, 1] {
        env.start_shard(number);
    }
    // 2. The nodes, with all hosts: they make the tables.
    env.start_node(0);
    env.wait_for_tables();
    // 3. Persons and groups for the new shard.
    let settings = env.settings();
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let output = run(&[&["migrate"][..], &settings].concat());
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("copied to shards"), "{text}");

    until_persons(&env, EVENTS);
    assert!(send(to, env.key(), "after", EVENTS, None));
    until_stored(&env, "after", all);
    let after = rows_of_shards(&env);
    assert!(after[2] > all / 6, "{after:?}");
    assert_eq!(after.iter().sum::<u64>(), 2 * all, "{after:?}");
    until_persons(&env, 2 * EVENTS);
}
