//! Tests of permits: those of all batches, and that of person updates.

use super::*;

#[test]
fn person_updates_do_not_wait_for_inserts_of_months_that_have_waited_longer() {
    for lane in [Lane::Live, Lane::Historical] {
        let mut env = TestEnv::new();
        env.plan.limits = Limits::of(lane);
        for month in old_months(100) {
            env.append("events(uuid)", month, 1);
        }
        env.read();
        env.pass(env.plan.limits.age_old);
        env.append("person_updates(uuid)", RECENT, 1);
        env.read();
        let months = env.plan.launch(env.now(), None);
        assert_eq!(months.len(), env.plan.limits.in_flight_max, "of a hundred");
        assert!(!env.plan.can_launch(env.now()));
        // The loop of the lane wakes up for them, although months are due that have no permit.
        let due = env.plan.next_due(RECENT).unwrap();
        assert_eq!(due, env.at + Duration::from_secs(1));
        env.at = due;
        let sent = env.plan.launch(env.now(), None);
        let [(id, updates)] = &sent[..] else {
            panic!("{lane:?}: {}", sent.len());
        };
        assert_eq!(updates.key.table(), Some(Table::PersonUpdates));
        // They have one permit: months have the others, however many updates come.
        env.append("person_updates(uuid)", RECENT, 1);
        env.read();
        env.pass(Duration::from_secs(1));
        assert!(!env.plan.can_launch(env.now()));
        env.plan.settled(months[0].0);
        let next = env.plan.launch(env.now(), None);
        assert_eq!(next[0].1.key.table(), Some(Table::Events));
        env.plan.settled(*id);
        let next = env.plan.launch(env.now(), None);
        assert_eq!(next[0].1.key.table(), Some(Table::PersonUpdates));
    }
}

#[test]
fn a_table_has_no_more_inserts_at_once_than_the_lane_has_permits() {
    // With a quorum a lane has one permit.
    for permits in [4, 1] {
        for table in ["events(uuid)", "person_updates(uuid)"] {
            let mut env = TestEnv::new();
            env.plan.limits.in_flight_max = permits;
            for _ in 0..6 {
                env.append(table, RECENT, 100_000);
                env.read();
                env.plan.launch(env.now(), None);
            }
            assert_eq!(env.plan.in_flight.len(), permits, "{table}");
            // Relaunched batches have no more.
            let ids: Vec<_> = env.plan.in_flight.keys().copied().collect();
            for id in ids {
                env.plan.restarted(id);
            }
            let relaunched = env.plan.launch(env.now(), None);
            assert_eq!(relaunched.len(), permits, "{table}");
        }
    }
}
