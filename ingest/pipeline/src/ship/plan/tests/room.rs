//! What is read of the log, and when.

use super::*;
use std::collections::BTreeSet;

#[test]
fn a_lane_goes_on_however_many_sections_were_under_way_at_its_end() {
    let mut stand = Stand::new();
    stand.plan.limits.sections_max = 10;
    for _ in 0..40 {
        stand.row(RECENT);
    }
    stand.pass(Duration::from_secs(1));
    let under_way = stand.plan.launch(stand.now(), None);
    assert_eq!(under_way[0].1.sections.len(), 40);
    stand.restart();
    assert_eq!(stand.plan.oldest_received(), None, "nothing is read");
    stand.append("events(uuid)", Month(202_611), 1);
    assert!(stand.read_frame());
    assert_eq!(
        stand.plan.oldest_received(),
        Some(Micros(0)),
        "known as soon as it is read"
    );
    for month in [RECENT, Month(202_611)] {
        stand.read();
        stand.pass(Duration::from_secs(1));
        assert_eq!(stand.sent(), [month]);
    }
    assert_eq!(stand.plan.low(), stand.end);
    assert_eq!(stand.plan.oldest_received(), None);
}

#[test]
fn an_insert_is_of_so_many_sections_at_most() {
    let mut stand = Stand::new();
    for _ in 0..20_000 {
        stand.row(RECENT);
    }
    stand.pass(Duration::from_secs(1));
    let mut sections = 0;
    while sections < 20_000 {
        for (id, unit) in stand.plan.launch(stand.now(), None) {
            assert!(unit.sections.len() <= 4_096);
            sections += unit.sections.len();
            stand.plan.settled(id);
        }
    }
    assert_eq!(stand.plan.low(), stand.end);
}

/// A lane whose inserts of recent rows fail, with so many more waiting for them, and a row of another month behind.
fn in_trouble(waiting: usize) -> Stand {
    let mut stand = Stand::new();
    stand.plan.limits.sections_max = 10;
    for _ in 0..=waiting {
        stand.append("events(uuid)", RECENT, 1);
    }
    stand.append("events(uuid)", Month(202_001), 1);
    stand
}

/// Reads and sends for a while; recent rows are refused three times, others are stored.
fn ship(stand: &mut Stand) {
    for _ in 0..20 {
        stand.read();
        stand.pass(Duration::from_secs(1));
        for (id, unit) in stand.plan.launch(stand.now(), None) {
            if unit.key.month == RECENT {
                stand.plan.troubled(id, false);
            } else {
                stand.plan.settled(id);
            }
        }
    }
}

/// Months of which rows are not stored.
fn unsettled(stand: &Stand) -> Vec<Month> {
    let in_flight = stand.plan.in_flight.values().map(|it| &it.unit.key);
    let keys = in_flight.chain(stand.plan.waiting.keys());
    let months: BTreeSet<Month> = keys.map(|key| key.month).collect();
    months.into_iter().collect()
}

#[test]
fn what_waits_for_an_insert_in_trouble_keeps_nothing_from_being_read_after_a_restart() {
    let mut stand = in_trouble(70);
    ship(&mut stand);
    assert_eq!(stand.plan.read_to(), stand.end, "as before the restart");
    stand.append("events(uuid)", Month(202_002), 1);
    for _ in 0..2 {
        stand.restart();
        ship(&mut stand);
        assert_eq!(stand.plan.read_to(), stand.end);
        assert_eq!(unsettled(&stand), [RECENT]);
    }
}

#[test]
fn nor_after_a_restart_of_clickhouse_nor_after_any_other_try_anew() {
    let mut stand = in_trouble(70);
    ship(&mut stand);
    for month in 0..5 {
        let in_flight: Vec<_> = stand.plan.in_flight.keys().copied().collect();
        for id in in_flight {
            stand.plan.restarted(id);
        }
        stand.append("events(uuid)", Month(202_002 + month), 1);
        ship(&mut stand);
        assert_eq!(stand.plan.read_to(), stand.end);
        assert_eq!(unsettled(&stand), [RECENT], "{month}");
    }
}
