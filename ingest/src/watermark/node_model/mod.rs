//! Model of a node, against which grace periods are tested: cores, a log whose tables ship apart, a
//! clock that jumps. Each step of a request and of the advancing watermarks is one of its own, and
//! any of them may come next.

mod entering;
mod fault;

use super::RequestEpochs;
use entering::Core;
use fault::Fault;
use millrace_rows::Micros;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{collection, prop_assert, proptest};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;

const CORES: usize = 3;

/// Tables of rows: events, and person updates, which have a watermark of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Event,
    Update,
}

/// Step of the model.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request that is entering on a core does its next step, or one begins to.
    Enter(usize),
    /// The oldest request under way on a core submits its row.
    Submit(usize),
    /// The newest request under way on a core is given up.
    GiveUp(usize),
    /// The oldest row of a table ships.
    Ship(Kind),
    /// The clock goes on, or back.
    Tick(i8),
    /// The next time does its next step towards being named.
    Advance,
    /// The watermark goes on to the oldest named time, if its rows are shipped.
    Pass,
    /// The watermark of person updates goes on likewise, if their rows are shipped.
    PassUpdates,
}

/// Progress of the time that is being named.
#[derive(Clone, Copy)]
enum Advancing {
    Idle,
    Noted { time: i64 },
    Raised { time: i64 },
    Turned { time: i64, epoch: u64 },
    Over { time: i64 },
}

struct Model {
    fault: Fault,
    request_epochs: RequestEpochs,
    cores: Vec<Core>,
    clock: i64,
    advancing: Advancing,
    /// Latest time that was noted.
    noted: i64,
    /// Named times, each with the length of the log then, the oldest first.
    named: VecDeque<(i64, usize)>,
    /// Named times of person updates, which pass apart.
    updates_named: VecDeque<(i64, usize)>,
    /// Rows in the order of the log.
    log: Vec<Row>,
    watermark: i64,
    updates_watermark: i64,
}

/// Row of the log.
struct Row {
    created_at: i64,
    kind: Kind,
    is_shipped: bool,
}

impl Model {
    fn new(fault: Fault) -> Self {
        let request_epochs = RequestEpochs::default();
        let core = |_| Core::new(request_epochs.for_core());
        Self {
            cores: (0..CORES).map(core).collect(),
            fault,
            request_epochs,
            clock: 0,
            advancing: Advancing::Idle,
            noted: i64::MIN,
            named: VecDeque::new(),
            updates_named: VecDeque::new(),
            log: Vec::new(),
            watermark: i64::MIN,
            updates_watermark: i64::MIN,
        }
    }

    /// Does a step; an error if a row is older than a watermark of its table and not shipped.
    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Enter(core) => self.cores[core].enter(self.fault, self.clock),
            Step::Submit(core) => {
                let core = &mut self.cores[core];
                if !core.under_way.is_empty() {
                    let (epoch, created_at) = core.under_way.remove(0);
                    // An event says something of a person.
                    self.log.extend([Kind::Event, Kind::Update].map(|kind| Row {
                        created_at,
                        kind,
                        is_shipped: false,
                    }));
                    core.request_epochs.end(epoch);
                }
            }
            Step::GiveUp(core) => {
                let core = &mut self.cores[core];
                if let Some((epoch, _)) = core.under_way.pop() {
                    core.request_epochs.end(epoch);
                }
            }
            Step::Ship(kind) => {
                let mut rows = self.log.iter_mut();
                if let Some(row) = rows.find(|row| row.kind == kind && !row.is_shipped) {
                    row.is_shipped = true;
                }
            }
            Step::Tick(by) => self.clock += i64::from(by),
            Step::Advance => self.advance(),
            Step::Pass => self.pass(),
            Step::PassUpdates => self.pass_updates(),
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let mut unshipped = self.log.iter().filter(|row| !row.is_shipped);
        let late = unshipped.find(|row| {
            let watermark = match row.kind {
                Kind::Event => self.watermark,
                Kind::Update => self.watermark.max(self.updates_watermark),
            };
            row.created_at < watermark
        });
        match late {
            Some(row) => Err(format!("{:?} of {} is missing", row.kind, row.created_at)),
            None => Ok(()),
        }
    }

    /// Returns true if the first rows of the log are shipped, those of the kinds that count.
    fn is_shipped(&self, end: usize, counts: impl Fn(Kind) -> bool) -> bool {
        let mut rows = self.log[..end].iter();
        rows.all(|row| row.is_shipped || !counts(row.kind))
    }

    fn advance(&mut self) {
        let fault = self.fault;
        self.advancing = match self.advancing {
            Advancing::Idle => Advancing::Noted { time: self.clock },
            Advancing::Noted { time } => {
                let time = time.max(self.noted);
                self.noted = time;
                if fault != Fault::MinRaisedAfterEpoch {
                    self.request_epochs.raise_min_created_at(Micros(time));
                }
                Advancing::Raised { time }
            }
            Advancing::Raised { time } => {
                let epoch = self.request_epochs.next_epoch();
                Advancing::Turned { time, epoch }
            }
            Advancing::Turned { time, epoch } => {
                let is_over =
                    self.request_epochs.is_over(epoch) || fault == Fault::NoWaitForRequests;
                if is_over {
                    self.request_epochs.raise_min_created_at(Micros(time));
                    Advancing::Over { time }
                } else {
                    self.advancing
                }
            }
            Advancing::Over { time } => {
                self.named.push_back((time, self.log.len()));
                self.updates_named.push_back((time, self.log.len()));
                Advancing::Idle
            }
        };
    }

    fn pass(&mut self) {
        let Some(&(time, end)) = self.named.front() else {
            return;
        };
        if self.is_shipped(end, |_| true) || self.fault == Fault::NoWaitForShipping {
            self.watermark = time;
            self.named.pop_front();
        }
    }

    fn pass_updates(&mut self) {
        let Some(&(time, end)) = self.updates_named.front() else {
            return;
        };
        let awaited = match self.fault {
            Fault::UpdatesWaitForEvents => Kind::Event,
            _ => Kind::Update,
        };
        let is_shipped = self.is_shipped(end, |kind| kind == awaited);
        if is_shipped || self.fault == Fault::NoWaitForUpdates {
            self.updates_watermark = time;
            self.updates_named.pop_front();
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let core = 0..CORES;
    prop_oneof![
        6 => core.clone().prop_map(Step::Enter),
        3 => core.clone().prop_map(Step::Submit),
        1 => core.prop_map(Step::GiveUp),
        3 => proptest::strategy::Just(Step::Ship(Kind::Event)),
        3 => proptest::strategy::Just(Step::Ship(Kind::Update)),
        2 => any::<i8>().prop_map(Step::Tick),
        6 => proptest::strategy::Just(Step::Advance),
        2 => proptest::strategy::Just(Step::Pass),
        2 => proptest::strategy::Just(Step::PassUpdates),
    ]
}

proptest! {
    #[test]
    fn no_row_below_the_watermark_is_missing_or_made_later(
        steps in collection::vec(step(), 1..300),
    ) {
        let mut model = Model::new(Fault::None);
        for step in steps {
            let stepped = model.step(step);
            prop_assert!(stepped.is_ok(), "{step:?}: {stepped:?}");
        }
    }
}

/// Returns true if a row is missed in one of many random orders of steps.
fn is_noticed(fault: Fault) -> bool {
    (0..20_000).any(|seed| {
        let mut random = SmallRng::seed_from_u64(seed);
        let mut model = Model::new(fault);
        (0..360).any(|_| {
            let core = random.random_range(0..CORES);
            let step = match random.random_range(0..28) {
                0..6 => Step::Enter(core),
                6..9 => Step::Submit(core),
                9 => Step::GiveUp(core),
                10..13 => Step::Ship(Kind::Event),
                13..16 => Step::Ship(Kind::Update),
                16..18 => Step::Tick(random.random_range(-128..=127)),
                18..24 => Step::Advance,
                24..26 => Step::Pass,
                _ => Step::PassUpdates,
            };
            model.step(step).is_err()
        })
    })
}

#[test]
fn each_injected_fault_makes_a_row_be_missed() {
    for fault in [
        Fault::NoSecondLook,
        Fault::MinReadBeforeEpoch,
        Fault::MinRaisedAfterEpoch,
        Fault::NoMinimum,
        Fault::NoWaitForRequests,
        Fault::NoWaitForShipping,
        Fault::NoWaitForUpdates,
        Fault::UpdatesWaitForEvents,
    ] {
        assert!(is_noticed(fault), "{fault:?}");
    }
    assert!(!is_noticed(Fault::None));
}

#[test]
fn the_watermark_goes_on_while_requests_come_and_go() {
    let mut model = Model::new(Fault::None);
    let mut round = |clock: i8| {
        model.step(Step::Tick(clock)).unwrap();
        // As many steps as it takes to enter, and to name a time.
        for (step, times) in [
            (Step::Enter(0), 6),
            (Step::Submit(0), 1),
            (Step::Ship(Kind::Event), 1),
            (Step::Ship(Kind::Update), 1),
            (Step::Advance, 5),
            (Step::Pass, 1),
        ] {
            for _ in 0..times {
                model.step(step).unwrap();
            }
        }
        model.watermark
    };
    assert_eq!(round(7), 7);
    assert_eq!(round(3), 10);
    assert_eq!(round(-4), 10);
}

#[test]
fn person_updates_pass_while_events_wait() {
    let mut model = Model::new(Fault::None);
    let steps = [
        (Step::Tick(7), 1),
        (Step::Enter(0), 6),
        (Step::Submit(0), 1),
        (Step::Tick(2), 1),
        (Step::Advance, 5),
        (Step::PassUpdates, 1),
        (Step::Ship(Kind::Update), 1),
        (Step::Pass, 1),
    ];
    for (step, times) in steps {
        for _ in 0..times {
            model.step(step).unwrap();
        }
    }
    assert_eq!(model.updates_watermark, i64::MIN, "its update waits");
    model.step(Step::PassUpdates).unwrap();
    assert_eq!((model.watermark, model.updates_watermark), (i64::MIN, 9));
}
