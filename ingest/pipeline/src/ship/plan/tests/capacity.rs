//! Tests of the capacity for sections, which limits reading of the log.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_lane_goes_on_however_many_sections_were_in_flight_at_a_restart() {
    let mut env = TestEnv::new();
    env.plan.limits.sections_max = 10;
    for _ in 0..40 {
        env.row(RECENT);
    }
    env.pass(Duration::from_secs(1));
    let in_flight = env.plan.launch(env.now(), None);
    assert_eq!(in_flight[0].1.sections.len(), 40);
    env.restart();
    assert_eq!(env.plan.oldest_received(), None, "nothing is read");
    env.append("events(uuid)", Month(202_611), 1);
    assert!(env.read_frame());
    assert_eq!(
        env.plan.oldest_received(),
        Some(Micros(0)),
        "known as soon as it is read"
    );
    for month in [RECENT, Month(202_611)] {
        env.read();
        env.pass(Duration::from_secs(1));
        assert_eq!(env.sent(), [month]);
    }
    assert_eq!(env.plan.low(), env.end);
    assert_eq!(env.plan.oldest_received(), None);
}

#[test]
fn a_batch_has_a_limited_number_of_sections() {
    let mut env = TestEnv::new();
    for _ in 0..20_000 {
        env.row(RECENT);
    }
    env.pass(Duration::from_secs(1));
    let mut sections = 0;
    while sections < 20_000 {
        for (id, batch) in env.plan.launch(env.now(), None) {
            assert!(batch.sections.len() <= 4_096);
            sections += batch.sections.len();
            env.plan.settled(id);
        }
    }
    assert_eq!(env.plan.low(), env.end);
}

/// Returns a lane to which `waiting` recent rows beyond the first and a row of an older month were
/// appended.
fn env_with_recent_rows(waiting: usize) -> TestEnv {
    let mut env = TestEnv::new();
    env.plan.limits.sections_max = 10;
    for _ in 0..=waiting {
        env.append("events(uuid)", RECENT, 1);
    }
    env.append("events(uuid)", Month(202_001), 1);
    env
}

/// Reads and sends for a while; batches of recent rows fail three times, others are stored.
fn ship(env: &mut TestEnv) {
    for _ in 0..20 {
        env.read();
        env.pass(Duration::from_secs(1));
        for (id, batch) in env.plan.launch(env.now(), None) {
            if batch.key.month == RECENT {
                env.plan.mark_failing(id, false);
            } else {
                env.plan.settled(id);
            }
        }
    }
}

/// Months with rows that are not stored.
fn unsettled(env: &TestEnv) -> Vec<Month> {
    let in_flight = env.plan.in_flight.values().map(|it| &it.batch.key);
    let keys = in_flight.chain(env.plan.waiting.keys());
    let months: BTreeSet<Month> = keys.map(|key| key.month).collect();
    months.into_iter().collect()
}

#[test]
fn the_log_is_read_on_after_a_restart_while_much_waits_for_a_failing_batch() {
    let mut env = env_with_recent_rows(70);
    ship(&mut env);
    assert_eq!(env.plan.read_to(), env.end, "as before the restart");
    env.append("events(uuid)", Month(202_002), 1);
    for _ in 0..2 {
        env.restart();
        ship(&mut env);
        assert_eq!(env.plan.read_to(), env.end);
        assert_eq!(unsettled(&env), [RECENT]);
    }
}

#[test]
fn the_log_is_read_on_after_a_relaunch_while_much_waits_for_a_failing_batch() {
    let mut env = env_with_recent_rows(70);
    ship(&mut env);
    for month in 0..5 {
        let in_flight: Vec<_> = env.plan.in_flight.keys().copied().collect();
        for id in in_flight {
            env.plan.restarted(id);
        }
        env.append("events(uuid)", Month(202_002 + month), 1);
        ship(&mut env);
        assert_eq!(env.plan.read_to(), env.end);
        assert_eq!(unsettled(&env), [RECENT], "{month}");
    }
}

#[test]
fn months_that_have_waited_longest_are_sent_first() {
    let mut env = TestEnv::new();
    // More than are in flight at once, in an order that is not that of the calendar.
    let months = old_months(24);
    for month in &months {
        env.row(*month);
        env.pass(Duration::from_millis(1));
    }
    env.pass(Duration::from_secs(5));
    assert_eq!(env.sent(), months);
}

/// Returns a lane with two batches of a month in flight, and their ids.
fn env_with_two_in_flight() -> (TestEnv, [BatchId; 2]) {
    let mut env = TestEnv::new();
    let ids = [(); 2].map(|()| {
        env.row(RECENT);
        env.pass(Duration::from_secs(1));
        env.plan.launch(env.now(), None)[0].0
    });
    (env, ids)
}

#[test]
fn a_report_of_the_tried_batch_of_a_month_holds_for_the_parked_ones() {
    let (mut env, failing) = env_with_two_in_flight();
    for id in failing {
        env.plan.mark_failing(id, true);
    }
    assert_eq!(env.plan.blocked_sections(), 0, "nobody can be reached");
    env.plan.mark_failing(failing[0], false);
    assert_eq!(env.plan.blocked_sections(), 2);
}

#[test]
fn a_batch_that_is_parked_does_not_change_what_is_known_of_the_tried_one() {
    for is_unreachable in [true, false] {
        let (mut env, [tried, parked]) = env_with_two_in_flight();
        env.plan.mark_failing(tried, is_unreachable);
        env.plan.mark_parked(parked, !is_unreachable);
        let expected = if is_unreachable { 0 } else { 2 };
        assert_eq!(env.plan.blocked_sections(), expected, "{is_unreachable}");

        let (mut env, [_, parked]) = env_with_two_in_flight();
        env.plan.mark_parked(parked, is_unreachable);
        let expected = if is_unreachable { 0 } else { 1 };
        assert_eq!(env.plan.blocked_sections(), expected, "no report before");
    }
}
