//! Times that rows of a month wait for more, and failing batches.

mod capacity;
mod parts;
mod permits;
mod shards;
mod wanted;

use super::*;
use crate::ship::retries::DeliveryStage;
use millrace_rows::{Lane, RowKey};
use proptest::prelude::*;
use uuid::Uuid;

const RECENT: Month = Month(202_610);
const START: Position = Position {
    segment: 1,
    offset: 64,
};

/// Test environment: a plan with a clock.
struct TestEnv {
    plan: Plan<()>,
    at: Duration,
    end: Position,
    /// Position, key and number of rows of each frame.
    log: Vec<(Position, InsertKey, u32)>,
}

impl TestEnv {
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

    /// Gathers a frame with a row of a month.
    fn row(&mut self, month: Month) {
        self.rows(month, 1);
    }

    /// Gathers a frame with so many rows of a month.
    fn rows(&mut self, month: Month, rows: u32) {
        self.append("events(uuid)", month, rows);
        self.read_frame();
    }

    /// Appends a frame that is not read yet.
    fn append(&mut self, table: &str, month: Month, rows: u32) {
        let insert_target = table.into();
        let key = InsertKey {
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
            position: SectionPosition { frame, section: 0 },
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

    /// Reads as long as there is capacity.
    fn read(&mut self) {
        while self.plan.has_capacity() && self.read_frame() {}
    }

    /// Restarts the process, which goes on from the last checkpoint.
    fn restart(&mut self) {
        let checkpoint = self.plan.checkpoint();
        let limits = self.plan.limits;
        self.at = Duration::ZERO;
        self.plan = Plan::restore(limits, checkpoint, 1, self.end);
    }

    /// Months of the batches that are sent now, all of them answered at once.
    fn sent(&mut self) -> Vec<Month> {
        let mut months = Vec::new();
        loop {
            let batches = self.plan.launch(self.now(), None);
            if batches.is_empty() {
                return months;
            }
            for (id, batch) in batches {
                months.push(batch.key.month);
                self.plan.settled(id);
            }
        }
    }

    /// Sends the batches that are due; all fail for the rows or for the server.
    fn fail(&mut self) {
        for (id, batch) in self.plan.launch(self.now(), None) {
            let can_halve = batch.halves().is_some();
            self.plan.take_apart(id, can_halve, self.at);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.at += time;
    }
}

/// Returns so many months before the recent ones.
fn old_months(count: u32) -> Vec<Month> {
    (0..count)
        .map(|nth| Month((2026 - 1 - nth / 12) * 100 + nth % 12 + 1))
        .collect()
}

#[test]
fn a_few_rows_of_older_months_are_sent_as_early_as_recent_ones() {
    let mut env = TestEnv::new();
    for month in [vec![Month(202_611)], old_months(7)].concat() {
        env.row(month);
    }
    env.pass(Duration::from_millis(999));
    assert_eq!(env.sent(), []);
    env.pass(Duration::from_millis(1));
    assert_eq!(env.sent().len(), 8);
    assert_eq!(env.plan.low(), env.end);
}

#[test]
fn older_months_cause_at_most_one_additional_insert_a_second() {
    const SECONDS: u32 = 300;
    for months in [1, 4, 60, 480] {
        let mut env = TestEnv::new();
        let mut inserts = 0;
        for _ in 0..SECONDS {
            for month in old_months(months) {
                env.row(month);
            }
            for _ in 0..4 {
                env.pass(Duration::from_millis(250));
                inserts += env.sent().len() as u32;
            }
        }
        let by_age = months * (SECONDS / 3 + 1);
        assert!(
            inserts <= by_age + SECONDS + 8,
            "{months}: {inserts} inserts"
        );
        // No row waits for longer than before.
        env.pass(Duration::from_secs(3));
        env.sent();
        assert_eq!(env.plan.low(), env.end, "{months}");
    }
}

#[test]
fn a_failing_batch_keeps_only_its_own_month_waiting() {
    let mut env = TestEnv::new();
    let months = old_months(40);
    let mut failing = Vec::new();
    // One month after the other cannot be stored: ten times as many as there are permits.
    for month in &months {
        env.row(*month);
        env.pass(Duration::from_secs(5));
        let [(id, batch)] = &env.plan.launch(env.now(), None)[..] else {
            panic!("{month:?} is not sent");
        };
        assert_eq!(batch.key.month, *month);
        env.plan.mark_failing(*id, false);
        failing.push(*id);
    }
    // All others are sent on.
    for _ in 0..3 {
        for month in months.iter().copied().chain([RECENT, Month(202_611)]) {
            env.row(month);
        }
        env.pass(Duration::from_secs(5));
        assert!(env.plan.can_launch(env.now()));
        assert_eq!(env.sent(), [RECENT, Month(202_611)]);
        assert!(!env.plan.can_launch(env.now()));
        assert_eq!(env.plan.next_due(RECENT), None);
    }
    // Once the failing batch is settled, the rows that waited go as one batch.
    for (id, month) in failing.into_iter().zip(&months) {
        env.plan.settled(id);
        assert_eq!(env.sent(), [*month]);
    }
    assert_eq!(env.plan.low(), env.end);
}

#[test]
fn as_many_batches_of_a_month_as_there_are_permits_fail_at_once_and_no_more() {
    let mut env = TestEnv::new();
    let mut failing = Vec::new();
    // Each is sent before the one in front of it counts as failing.
    for _ in 0..6 {
        env.row(RECENT);
        env.pass(Duration::from_secs(5));
        failing.extend(env.plan.launch(env.now(), None));
    }
    assert_eq!(failing.len(), env.plan.limits.in_flight_max);
    let other = Month(202_611);
    env.row(other);
    env.pass(Duration::from_secs(5));
    assert!(!env.plan.can_launch(env.now()), "they have all permits");
    env.plan.mark_failing(failing[0].0, false);
    assert_eq!(env.sent(), [other]);
    for (id, _) in &failing {
        env.plan.mark_failing(*id, false);
    }
    env.row(RECENT);
    env.row(other);
    env.pass(Duration::from_secs(5));
    assert_eq!(env.sent(), [other]);
    for (id, _) in failing {
        env.plan.settled(id);
    }
    assert_eq!(env.sent(), [RECENT]);
}

#[test]
fn the_log_is_read_on_while_much_waits_for_a_failing_batch() {
    let mut env = TestEnv::new();
    env.plan.limits.sections_max = 10;
    env.row(RECENT);
    env.pass(Duration::from_secs(1));
    let id = env.plan.launch(env.now(), None)[0].0;
    for _ in 0..9 {
        env.row(RECENT);
    }
    assert!(!env.plan.has_capacity());
    env.plan.mark_failing(id, true);
    assert!(!env.plan.has_capacity(), "of no use in an outage");
    env.plan.mark_failing(id, false);
    for _ in 0..70 {
        assert!(env.plan.has_capacity());
        env.row(RECENT);
    }
    env.row(RECENT);
    assert!(!env.plan.has_capacity(), "memory has an end");
    env.plan.settled(id);
    env.pass(Duration::from_secs(1));
    env.sent();
    assert!(env.plan.has_capacity());
    assert_eq!(env.plan.low(), env.end);
}

proptest! {
    #[test]
    fn a_batch_can_be_launched_when_it_is_due_and_not_before(
        steps in prop::collection::vec((0_u32..12, 0_u64..3_000, any::<bool>()), 1..40),
    ) {
        let mut env = TestEnv::new();
        let months = [old_months(10), vec![RECENT, Month(202_611)]].concat();
        for (month, millis, sends) in steps {
            env.row(months[month as usize]);
            env.pass(Duration::from_millis(millis));
            if sends {
                env.sent();
            }
            let Some(due) = env.plan.next_due(RECENT) else {
                continue;
            };
            let at = |elapsed| Now { elapsed, ..env.now() };
            prop_assert!(env.plan.can_launch(at(due)));
            if let Some(before) = due.checked_sub(Duration::from_nanos(1)) {
                prop_assert!(!env.plan.can_launch(at(before)));
            }
        }
    }
}

#[test]
fn an_outage_that_looks_like_bad_rows_halves_few_batches() {
    let mut env = TestEnv::new();
    for _ in 0..20_000 {
        for month in [RECENT, Month(202_611), Month(202_001)] {
            env.rows(month, 1_000);
        }
        env.pass(Duration::from_secs(10));
        env.fail();
    }
    let ranges = env.plan.checkpoint().in_flight.len();
    assert!((64..600).contains(&ranges), "{ranges}");
}

#[test]
fn a_failing_single_row_does_not_keep_its_month_waiting() {
    let mut env = TestEnv::new();
    env.row(RECENT);
    env.pass(Duration::from_secs(2));
    let (id, _) = env.plan.launch(env.now(), None).remove(0);
    env.plan.mark_failing(id, false);
    env.row(RECENT);
    env.pass(Duration::from_secs(2));
    assert_eq!(env.sent(), [], "it may be halved yet");
    let (batch, stage) = env.plan.take_apart(id, false, env.at).unwrap();
    assert_eq!(stage, DeliveryStage::LastPart);
    assert!(batch.in_doubt && batch.is_part);
    assert_eq!(env.sent(), [RECENT], "which proves what is wrong with it");
}

#[test]
fn parts_far_from_failing_ones_are_tried_too() {
    let mut env = TestEnv::new();
    env.rows(RECENT, 100_000);
    env.pass(Duration::from_secs(2));
    // The last 90 000 rows are bad: every neighbour of a bad row is bad as well.
    for _ in 0..300 {
        for (id, batch) in env.plan.launch(env.now(), None) {
            let to = batch.range.map_or(100_000, |range| range.to);
            if to <= 10_000 {
                return;
            }
            let can_halve = batch.halves().is_some();
            env.plan.take_apart(id, can_halve, env.at);
        }
    }
    panic!("nothing was stored that proves what is wrong with the others");
}

#[test]
fn person_updates_are_shipped_while_events_of_other_months_are_not() {
    let mut env = TestEnv::new();
    env.append("events(uuid)", old_months(1)[0], 1);
    env.append("person_updates(uuid)", RECENT, 1);
    env.read();
    let [events, updates] = [0, 1].map(|nth| env.log[nth].0);
    let lows = |env: &TestEnv| (env.plan.low(), env.plan.low_of(Table::PersonUpdates));
    assert_eq!(lows(&env), (events, updates), "both wait");
    env.pass(Limits::of(Lane::Live).age_old);
    let sent = env.plan.launch(env.now(), None);
    assert_eq!(lows(&env), (events, updates), "both are in flight");
    for (id, batch) in &sent {
        if batch.key.table() == Some(Table::PersonUpdates) {
            env.plan.settled(*id);
        }
    }
    assert_eq!(lows(&env), (events, env.end));
    // Rows that were settled are not taken for waiting after a restart, either.
    env.restart();
    assert_eq!(lows(&env), (events, events), "nothing is read yet");
    env.read();
    assert_eq!(lows(&env), (events, env.end));
    env.append("person_updates(uuid)", RECENT, 1);
    let end = env.log[2].0;
    assert_eq!(lows(&env), (events, end), "as far as the log is read");
    env.read();
    env.restart();
    env.read();
    assert_eq!(lows(&env), (events, end), "it waits to be sent");
}
