//! How long rows wait for company, by month.

use super::*;
use millrace_rows::Lane;
use proptest::prelude::*;

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
}

impl Stand {
    fn new() -> Self {
        Self {
            plan: Plan::new(Limits::of(Lane::Live), 0, START, START),
            at: Duration::ZERO,
            end: START,
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
        let frame = self.end;
        self.end.offset += 64;
        let key = Key {
            insert_target: "events(uuid)".into(),
            month,
        };
        let section = Section {
            place: Place { frame, section: 0 },
            rows: 1,
            row_bytes: 100,
            keys: Vec::new(),
            is_suspect: false,
            source: (),
        };
        self.plan.gather(self.end, [(key, section)], self.at);
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
        let by_age = months * (SECONDS / 15 + 1);
        assert!(
            inserts <= by_age + SECONDS + 8,
            "{months}: {inserts} inserts"
        );
        // No row waits for longer than before.
        stand.pass(Duration::from_secs(15));
        stand.sent();
        assert_eq!(stand.plan.low(), stand.end, "{months}");
    }
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
