//! Tests of parts of halved batches: few at a time, and all of them in the end.

use super::*;
use crate::ship::checkpoint::RecordedBatch;
use crate::ship::insert_batch::RowRange;
use millrace_log::CHECKPOINT_BYTES_MAX;

const OTHER: &str = "rejected_events(raw)";

/// Reads, and sends for a second in which a part takes 20 ms: all rows of events are refused, all
/// others stored.
fn ship_refused(env: &mut TestEnv) {
    for _ in 0..50 {
        env.read();
        env.pass(Duration::from_millis(20));
        for (id, batch) in env.plan.launch(env.now(), None) {
            let is_refused = &*batch.key.insert_target != OTHER && env.plan.refused(id);
            if !is_refused {
                // A single row, which is dead-lettered.
                env.plan.settled(id);
            }
        }
    }
}

/// Returns true if a row of the table is read, and neither stored nor dead-lettered.
fn has(env: &TestEnv, table: &str) -> bool {
    let in_flight = env.plan.in_flight.values().map(|it| &it.batch.key);
    let mut keys = in_flight.chain(env.plan.waiting.keys());
    keys.any(|key| &*key.insert_target == table)
}

/// Number of batches in the checkpoint, which must be small.
fn recorded(env: &TestEnv) -> usize {
    let checkpoint = env.plan.checkpoint();
    assert!(checkpoint.to_bytes().unwrap().len() < 100_000);
    checkpoint.in_flight.len()
}

#[test]
fn a_table_whose_rows_are_all_refused_has_few_parts_and_keeps_no_other_table_waiting() {
    let mut env = TestEnv::new();
    env.plan.limits.sections_max = 2_000;
    for second in 0..900 {
        for _ in 0..15 {
            env.append("events(uuid)", RECENT, 20);
        }
        env.append(OTHER, RECENT, 1);
        ship_refused(&mut env);
        assert!(recorded(&env) < 200, "{second}: {}", recorded(&env));
    }
    assert_eq!(env.plan.read_to(), env.end);
    env.pass(Duration::from_secs(2));
    ship_refused(&mut env);
    assert!(!has(&env, OTHER));
    // Once the table is repaired, everything is stored.
    env.sent();
    assert_eq!(env.plan.low(), env.end);
}

#[test]
fn failing_batches_that_are_refused_all_at_once_are_halved_one_after_the_other() {
    let mut env = TestEnv::new();
    for _ in 0..100_000 {
        env.row(RECENT);
    }
    for _ in 0..20 {
        // Nobody can be reached, whatever is sent, …
        env.pass(Duration::from_secs(60));
        let mut failing = Vec::new();
        loop {
            let batches = env.plan.launch(env.now(), None);
            if batches.is_empty() {
                break;
            }
            for (id, _) in batches {
                env.plan.mark_failing(id, true);
                failing.push(id);
            }
        }
        // … and then everything is refused.
        for id in failing {
            if !env.plan.refused(id) {
                env.plan.settled(id);
            }
        }
        ship_refused(&mut env);
        assert!(recorded(&env) < 400, "{}", recorded(&env));
    }
    assert!(env.plan.checkpoint().in_flight.len() > 100);
    env.sent();
    assert_eq!(env.plan.low(), env.end);
}

#[test]
fn parts_are_parts_after_a_restart_so_that_no_more_are_made() {
    let mut env = TestEnv::new();
    for _ in 0..20_000 {
        env.row(RECENT);
    }
    for _ in 0..50 {
        for _ in 0..100 {
            env.pass(Duration::from_secs(10));
            env.fail();
        }
        assert!(recorded(&env) < 600, "{}", recorded(&env));
        env.restart();
        env.read();
    }
}

#[test]
fn a_full_checkpoint_of_an_earlier_version_with_many_parts_is_shipped() {
    let mut env = TestEnv::new();
    for _ in 0..9_380 {
        env.append("events(uuid)", RECENT, 3);
    }
    let recorded = env.log.iter().map(|(frame, key, _)| {
        let frame = *frame;
        let position = SectionPosition { frame, section: 0 };
        RecordedBatch {
            key: key.clone(),
            first: position,
            last: position,
            rows: (frame.offset % 128 == 0).then_some(RowRange { from: 0, to: 3 }),
            start_mark: Some(u32::MAX),
            rows_mark: None,
            attempt: 0,
            is_suspect: false,
            is_part: false,
            boot_id: None,
        }
    });
    let mut checkpoint = env.plan.checkpoint();
    checkpoint.in_flight = recorded.collect();
    let bytes = checkpoint.to_bytes().unwrap().len();
    assert!(((1 << 20) - 20_000..1 << 20).contains(&bytes), "{bytes}");
    env.plan = Plan::restore(env.plan.limits, checkpoint, 1, env.end);
    for _ in 0..10 {
        ship_refused(&mut env);
        let bytes = env.plan.checkpoint().to_bytes().unwrap();
        assert!(bytes.len() < CHECKPOINT_BYTES_MAX);
    }
    assert!(env.plan.in_flight.len() < 9_380 - 75);
}
