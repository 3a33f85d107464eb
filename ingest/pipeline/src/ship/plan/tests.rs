//! How long rows wait for company, by month.

mod parts;
mod room;

use super::*;
use crate::ship::retries::Standing;
use millrace_rows::{Lane, RowKey};
use proptest::prelude::*;
use uuid::Uuid;

const RECENT: Month = Month(202_610);
const START: Position = Position {
    segment: 1,
    offset: 64,
};

/// A plan with a clock.
struct Stand {
    plan: Plan<()>,
    at: Duration,
    end: Position,
    /// The rows of each frame: where they are, of which table and month, and how many.
    log: Vec<(Position, Key, u32)>,
}

impl Stand {
    fn new() -> Self {
        Self {
            plan: Plan::new(Limits::of(Lane::Live), 0, 0, START, START),
            at: Duration::ZERO,
            end: START,
            log: Vec::new(),
        }
    }

    fn now(&self) -> Now {
        Now {
            elapsed: self.at,
            recent: RECENT,
            is_draining: false,
        }
    }

    /// A frame with a row of a month.
    fn row(&mut self, month: Month) {
        self.rows(month, 1);
    }

    /// A frame with so many.
    fn rows(&mut self, month: Month, rows: u32) {
        self.append("events(uuid)", month, rows);
        self.read_frame();
    }

    /// A frame that was not read yet.
    fn append(&mut self, table: &str, month: Month, rows: u32) {
        let insert_target = table.into();
        let key = Key {
            insert_target,
            month,
        };
        self.log.push((self.end, key, rows));
        self.end.offset += 64;
    }

    /// Reads the next frame; false if there is none.
    fn read_frame(&mut self) -> bool {
        let read_to = self.plan.read_to();
        let nth = self.log.partition_point(|(frame, ..)| *frame < read_to);
        let Some((frame, key, rows)) = self.log.get(nth).cloned() else {
            return false;
        };
        let id = RowKey {
            id: Uuid::nil(),
            received_at: Micros(nth as i64),
            index: None,
        };
        let section = Section {
            place: Place { frame, section: 0 },
            rows,
            row_bytes: 100,
            keys: vec![id],
            is_suspect: false,
            source: (),
        };
        let end = Position {
            offset: frame.offset + 64,
            ..frame
        };
        self.plan.gather(end, [(key, section)], self.at);
        true
    }

    /// Reads as long as there is room.
    fn read(&mut self) {
        while self.plan.has_room() && self.read_frame() {}
    }

    /// Another process goes on with what the last checkpoint says.
    fn restart(&mut self) {
        let checkpoint = self.plan.checkpoint();
        let limits = self.plan.limits;
        self.at = Duration::ZERO;
        self.plan = Plan::restore(limits, checkpoint, 1, self.end);
    }

    /// The months of the inserts that are sent now, all of them answered at once.
    fn sent(&mut self) -> Vec<Month> {
        let mut months = Vec::new();
        loop {
            let units = self.plan.launch(self.now(), None);
            if units.is_empty() {
                return months;
            }
            for (id, unit) in units {
                months.push(unit.key.month);
                self.plan.settled(id);
            }
        }
    }

    /// Sends what is due, all of which fails for what may be the rows or the server.
    fn fail(&mut self) {
        for (id, unit) in self.plan.launch(self.now(), None) {
            let can_halve = unit.halves().is_some();
            self.plan.take_apart(id, can_halve, self.at);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.at += time;
    }
}

/// So many months before those that are recent.
fn old_months(count: u32) -> Vec<Month> {
    (0..count)
        .map(|nth| Month((2026 - 1 - nth / 12) * 100 + nth % 12 + 1))
        .collect()
}

#[test]
fn where_little_comes_rows_of_older_months_are_sent_as_soon_as_others() {
    let mut stand = Stand::new();
    for month in [vec![Month(202_611)], old_months(7)].concat() {
        stand.row(month);
    }
    stand.pass(Duration::from_millis(999));
    assert_eq!(stand.sent(), []);
    stand.pass(Duration::from_millis(1));
    assert_eq!(stand.sent().len(), 8);
    assert_eq!(stand.plan.low(), stand.end);
}

#[test]
fn however_many_older_months_come_they_make_but_one_more_insert_a_second() {
    const SECONDS: u32 = 300;
    for months in [1, 4, 60, 480] {
        let mut stand = Stand::new();
        let mut inserts = 0;
        for _ in 0..SECONDS {
            for month in old_months(months) {
                stand.row(month);
            }
            for _ in 0..4 {
                stand.pass(Duration::from_millis(250));
                inserts += stand.sent().len() as u32;
            }
        }
        let by_age = months * (SECONDS / 5 + 1);
        assert!(
            inserts <= by_age + SECONDS + 8,
            "{months}: {inserts} inserts"
        );
        // No row waits for longer than before.
        stand.pass(Duration::from_secs(5));
        stand.sent();
        assert_eq!(stand.plan.low(), stand.end, "{months}");
    }
}

#[test]
fn inserts_in_trouble_keep_their_month_waiting_and_nobody_else() {
    let mut stand = Stand::new();
    let months = old_months(40);
    let mut in_trouble = Vec::new();
    // One month after the other cannot be stored: ten times as many as there are places.
    for month in &months {
        stand.row(*month);
        stand.pass(Duration::from_secs(5));
        let [(id, unit)] = &stand.plan.launch(stand.now(), None)[..] else {
            panic!("{month:?} is not sent");
        };
        assert_eq!(unit.key.month, *month);
        stand.plan.troubled(*id, false);
        in_trouble.push(*id);
    }
    // All others are sent on.
    for _ in 0..3 {
        for month in months.iter().copied().chain([RECENT, Month(202_611)]) {
            stand.row(month);
        }
        stand.pass(Duration::from_secs(5));
        assert!(stand.plan.can_launch(stand.now()));
        assert_eq!(stand.sent(), [RECENT, Month(202_611)]);
        assert!(!stand.plan.can_launch(stand.now()));
        assert_eq!(stand.plan.next_due(RECENT), None);
    }
    // What waited goes with the end of the trouble, as one insert.
    for (id, month) in in_trouble.into_iter().zip(&months) {
        stand.plan.settled(id);
        assert_eq!(stand.sent(), [*month]);
    }
    assert_eq!(stand.plan.low(), stand.end);
}

#[test]
fn the_log_is_read_on_while_much_waits_for_an_insert_in_trouble() {
    let mut stand = Stand::new();
    stand.plan.limits.sections_max = 10;
    stand.row(RECENT);
    stand.pass(Duration::from_secs(1));
    let id = stand.plan.launch(stand.now(), None)[0].0;
    for _ in 0..9 {
        stand.row(RECENT);
    }
    assert!(!stand.plan.has_room());
    stand.plan.troubled(id, true);
    assert!(!stand.plan.has_room(), "there is no use in an outage");
    stand.plan.troubled(id, false);
    for _ in 0..70 {
        assert!(stand.plan.has_room());
        stand.row(RECENT);
    }
    stand.row(RECENT);
    assert!(!stand.plan.has_room(), "memory has an end");
    stand.plan.settled(id);
    stand.pass(Duration::from_secs(1));
    stand.sent();
    assert!(stand.plan.has_room());
    assert_eq!(stand.plan.low(), stand.end);
}

proptest! {
    #[test]
    fn what_is_due_can_be_sent_then_and_not_before(
        steps in prop::collection::vec((0_u32..12, 0_u64..3_000, any::<bool>()), 1..40),
    ) {
        let mut stand = Stand::new();
        let months = [old_months(10), vec![RECENT, Month(202_611)]].concat();
        for (month, millis, sends) in steps {
            stand.row(months[month as usize]);
            stand.pass(Duration::from_millis(millis));
            if sends {
                stand.sent();
            }
            let Some(due) = stand.plan.next_due(RECENT) else {
                continue;
            };
            let at = |elapsed| Now { elapsed, ..stand.now() };
            prop_assert!(stand.plan.can_launch(at(due)));
            if let Some(before) = due.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(!stand.plan.can_launch(at(before)));
            }
        }
    }
}

#[test]
fn an_outage_that_looks_like_bad_rows_takes_few_inserts_apart_however_long_it_is() {
    let mut stand = Stand::new();
    for _ in 0..20_000 {
        for month in [RECENT, Month(202_611), Month(202_001)] {
            stand.rows(month, 1_000);
        }
        stand.pass(Duration::from_secs(10));
        stand.fail();
    }
    let ranges = stand.plan.checkpoint().in_flight.len();
    assert!((64..600).contains(&ranges), "{ranges}");
}

#[test]
fn a_row_that_cannot_be_halved_keeps_its_month_waiting_for_nothing() {
    let mut stand = Stand::new();
    stand.row(RECENT);
    stand.pass(Duration::from_secs(2));
    let (id, _) = stand.plan.launch(stand.now(), None).remove(0);
    stand.plan.troubled(id, false);
    stand.row(RECENT);
    stand.pass(Duration::from_secs(2));
    assert_eq!(stand.sent(), [], "it may be halved yet");
    let (unit, standing) = stand.plan.take_apart(id, false, stand.at).unwrap();
    assert!(unit.in_doubt && unit.is_part);
    assert_eq!(standing, Standing::Last);
    assert_eq!(stand.sent(), [RECENT], "which proves what is wrong with it");
}

#[test]
fn parts_far_from_those_in_trouble_are_tried_too() {
    let mut stand = Stand::new();
    stand.rows(RECENT, 100_000);
    stand.pass(Duration::from_secs(2));
    // The last 90 000 rows are bad: whatever is near a bad row is bad as well.
    for _ in 0..300 {
        for (id, unit) in stand.plan.launch(stand.now(), None) {
            let to = unit.range.map_or(100_000, |range| range.to);
            if to <= 10_000 {
                return;
            }
            let can_halve = unit.halves().is_some();
            stand.plan.take_apart(id, can_halve, stand.at);
        }
    }
    panic!("nothing was stored that proves what is wrong with the others");
}
