//! What is read of the log, and when.

use super::*;

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
