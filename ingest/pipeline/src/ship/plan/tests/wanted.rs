//! Tests of person updates that somebody waits for.

use super::*;

const UPDATES: &str = "person_updates(uuid)";

#[test]
fn wanted_person_updates_are_sent_as_soon_as_they_are_read_and_later_ones_are_not() {
    let mut env = TestEnv::new();
    let months = old_months(20);
    for month in &months {
        env.append("events(uuid)", *month, 1);
    }
    env.append("events(uuid)", RECENT, 1);
    env.append(UPDATES, RECENT, 1);
    // Before they are read, as the log is read at intervals.
    env.plan.want_updates(env.end);
    assert_eq!(env.plan.next_due(RECENT), None);
    env.read();
    env.pass(Limits::of(Lane::Live).age_early() - Duration::from_millis(1));
    let sent = env.plan.launch(env.now(), None);
    let [(id, batch)] = &sent[..] else {
        panic!("{} batches", sent.len());
    };
    assert_eq!(batch.key.table(), Some(Table::PersonUpdates));
    env.plan.settled(*id);
    assert_eq!(env.plan.low_of(Table::PersonUpdates), env.end);
    // It took none of the tokens of older months.
    env.pass(Duration::from_millis(1));
    let early = env.sent();
    assert_eq!(early.iter().filter(|month| **month < RECENT).count(), 8);
    // Rows behind the position gather, and a position never goes back.
    env.append(UPDATES, RECENT, 1);
    env.read();
    assert!(!env.plan.can_launch(env.now()));
    env.plan.want_updates(env.end);
    env.plan.want_updates(START);
    assert_eq!(env.sent(), [RECENT]);
}

#[test]
fn person_updates_are_wanted_of_no_batch_that_is_in_flight() {
    let mut env = TestEnv::new();
    env.append(UPDATES, RECENT, 1);
    env.read();
    env.plan.want_updates(env.end);
    let sent = env.plan.launch(env.now(), None);
    assert_eq!(sent.len(), 1);
    env.plan.mark_failing(sent[0].0, true);
    env.append(UPDATES, RECENT, 1);
    env.read();
    env.plan.want_updates(env.end);
    assert!(
        !env.plan.can_launch(env.now()),
        "an outage makes no batches"
    );
    assert_eq!(env.plan.next_due(RECENT), None);
    env.plan.settled(sent[0].0);
    assert_eq!(env.sent(), [RECENT]);
}
