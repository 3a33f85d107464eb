//! Nodes that ask, import, crash and start again, against a model that knows what came in.

mod model;

use super::EXPIRY_MICROS;
use model::{Model, RATE, SECOND, Step, steps};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn volume_and_rate_are_never_exceeded_and_a_crash_forfeits_what_the_node_held(
        default_quota in 0..5_000_i64,
        steps in steps(),
    ) {
        let mut model = Model::new(default_quota);
        for step in steps {
            model.take(step);
            model.check()?;
        }
        model.check_rate()?;
        model.stop();
        model.check()?;
        // What is still held is of nodes that crashed, and all else can be imported.
        let open = model.quota.grants.iter().filter(|it| it.is_open);
        let left: i64 = open.map(|it| it.left).sum();
        model.now += 120 * SECOND;
        let wanted = left.min(RATE);
        prop_assert_eq!(model.ask(0, wanted, 0, false).given, wanted);
        prop_assert_eq!(model.ask(1, left + 1, 0, false).given, 0);
    }
}

#[test]
fn needed_events_and_a_stock_are_leased_as_far_as_the_quota_goes() {
    let table = [
        // needed, stock, left, given
        (10, 5, 100, 15),
        (10, 5, 20, 15),
        (10, 5, 16, 13),
        (10, 5, 10, 10),
        (10, 5, 9, 0),
        (0, 5, 10, 5),
        (0, 5, 9, 0),
    ];
    for (needed, stock, left, given) in table {
        let mut model = Model::new(left);
        let decision = model.ask(0, needed, stock, false);
        assert_eq!(decision.given, given, "{needed} and {stock} of {left}");
        assert_eq!(decision.free, left - given);
    }
}

#[test]
fn approvals_without_a_limit_can_be_leased_together() {
    let mut model = Model::new(0);
    for _ in 0..2 {
        model.take(Step::Approve { total: i64::MAX });
    }
    let decision = model.ask(0, 5, 0, false);
    assert_eq!((decision.given, decision.free), (5, i64::MAX));
}

#[test]
fn a_clock_that_goes_back_by_a_day_stops_no_import() {
    let mut model = Model::new(10_000);
    model.now = 86_400 * SECOND;
    assert_eq!(model.ask(0, RATE, 0, false).given, RATE);
    model.take(Step::Import {
        node: 0,
        events: RATE,
    });
    model.now = 0;
    assert_eq!(model.ask(0, 1, 0, false).given, 0);
    model.now = 60 * SECOND;
    assert_eq!(model.ask(0, RATE, 0, false).given, RATE);
}

#[test]
fn the_unused_part_of_a_lease_returns_before_it_expires_and_never_after() {
    for (passed, free) in [(EXPIRY_MICROS - 1, 70), (EXPIRY_MICROS, 40)] {
        let mut model = Model::new(100);
        assert_eq!(model.ask(0, 60, 0, false).given, 60);
        model.take(Step::Import {
            node: 0,
            events: 30,
        });
        model.now += passed;
        // The node gives up what it does not use, and what it imported is counted late.
        assert_eq!(model.ask(0, 0, 0, false).free, free, "after {passed}");
        assert_eq!(model.counted(), 30);
        assert_eq!(model.held(), 0);
    }
}

#[test]
fn an_approval_is_used_up_when_no_lease_of_it_can_bring_anything_back() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    let id = model.quota.grants[1].id;
    model.ask(0, 50, 0, false);
    model.quota.leases = model.leases[0].clone();
    assert!(model.quota.used_up(EXPIRY_MICROS - 1).is_empty());
    assert_eq!(model.quota.used_up(EXPIRY_MICROS), [id]);
}

#[test]
fn a_used_up_approval_takes_nothing_back_from_a_node_that_reports_late() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    assert_eq!(model.ask(0, 50, 0, false).given, 50);
    // Its requests use all of it, and it does not reach the catalog.
    model.nodes[0].available = 0;
    model.now += EXPIRY_MICROS;
    model.ask(1, 1, 0, false);
    assert!(!model.quota.grants[1].is_open, "another node's report");
    model.ask(0, 0, 0, false);
    // One request imports, the others give their events back.
    (model.nodes[0].imported, model.nodes[0].held) = (10, 0);
    model.ask(0, 0, 0, false);
    let grant = &model.quota.grants[1];
    assert_eq!((grant.left, grant.newly_counted), (0, 10));
}

#[test]
fn leases_of_an_ended_approval_are_revoked_and_their_imported_events_counted() {
    let mut model = Model::new(100);
    model.take(Step::Approve { total: 50 });
    assert_eq!(model.ask(0, 30, 0, false).given, 30);
    model.take(Step::Import {
        node: 0,
        events: 10,
    });
    model.take(Step::End);
    let decision = model.ask(0, 40, 0, false);
    assert_eq!((decision.give_back, decision.given), (20, 40));
    assert_eq!(model.quota.grants[1].newly_counted, 10);
    assert_eq!(model.ask(0, 0, 0, false).give_back, 0);
    assert_eq!(model.held(), 40);
}

#[test]
fn without_the_feature_all_leases_are_revoked() {
    let mut model = Model::new(100);
    model.ask(0, 30, 0, false);
    model.quota.is_allowed = false;
    let decision = model.ask(0, 5, 5, false);
    assert_eq!((decision.given, decision.give_back), (0, 30));
    assert!(!decision.is_allowed);
}
