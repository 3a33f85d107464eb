//! Model of a node, against which grace periods are tested: cores, a log that ships, a clock that
//! jumps. Each step of a request and of the advancing watermark is one of its own, and any of them
//! may come next.

use super::{CoreEpochs, RequestEpochs};
use millrace_rows::Micros;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{collection, prop_assert, proptest};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;
use std::rc::Rc;

const CORES: usize = 3;

/// Step of the model.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request that is entering on a core does its next step, or one begins to.
    Enter(usize),
    /// The oldest request under way on a core submits its row.
    Submit(usize),
    /// The newest request under way on a core is given up.
    GiveUp(usize),
    /// Something ships.
    Ship,
    /// The clock goes on, or back.
    Tick(i8),
    /// The next time does its next step towards being named.
    Advance,
    /// The watermark goes on to the oldest named time, if its rows are shipped.
    Pass,
}

/// Fault that is injected, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    NoSecondLook,
    MinReadBeforeEpoch,
    MinRaisedAfterEpoch,
    NoMinimum,
    NoWaitForRequests,
    NoWaitForShipping,
}

/// Request that is entering, and `min_created_at` as it was at first.
#[derive(Clone, Copy)]
enum Entering {
    Begun {
        min_created_at: i64,
    },
    Read {
        epoch: u64,
        min_created_at: i64,
    },
    Counted {
        epoch: u64,
        min_created_at: i64,
    },
    Entered {
        epoch: u64,
        min_created_at: i64,
    },
    Timed {
        epoch: u64,
        min_created_at: i64,
        now: i64,
    },
}

struct Core {
    request_epochs: Rc<CoreEpochs>,
    entering: Option<Entering>,
    /// Requests under way: their epoch, and the `created_at` of their row.
    under_way: Vec<(u64, i64)>,
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
    /// `created_at` of the rows in the order of the log, and how many of them are shipped.
    log: Vec<i64>,
    shipped: usize,
    watermark: i64,
}

impl Model {
    fn new(fault: Fault) -> Self {
        let request_epochs = RequestEpochs::default();
        let core = |_| Core {
            request_epochs: request_epochs.for_core(),
            entering: None,
            under_way: Vec::new(),
        };
        Self {
            cores: (0..CORES).map(core).collect(),
            fault,
            request_epochs,
            clock: 0,
            advancing: Advancing::Idle,
            noted: i64::MIN,
            named: VecDeque::new(),
            log: Vec::new(),
            shipped: 0,
            watermark: i64::MIN,
        }
    }

    /// Does a step; an error if a row is older than the watermark and not shipped.
    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Enter(core) => self.enter(core),
            Step::Submit(core) => {
                let core = &mut self.cores[core];
                if !core.under_way.is_empty() {
                    let (epoch, created_at) = core.under_way.remove(0);
                    self.log.push(created_at);
                    core.request_epochs.end(epoch);
                }
            }
            Step::GiveUp(core) => {
                let core = &mut self.cores[core];
                if let Some((epoch, _)) = core.under_way.pop() {
                    core.request_epochs.end(epoch);
                }
            }
            Step::Ship => self.shipped = self.log.len().min(self.shipped + 1),
            Step::Tick(by) => self.clock += i64::from(by),
            Step::Advance => self.advance(),
            Step::Pass => self.pass(),
        }
        let late = self.log[self.shipped..].iter().min();
        match late.filter(|created_at| **created_at < self.watermark) {
            Some(late) => Err(format!("{late} is not shipped at {}", self.watermark)),
            None => Ok(()),
        }
    }

    fn enter(&mut self, core: usize) {
        let Core {
            request_epochs,
            entering,
            under_way,
        } = &mut self.cores[core];
        let fault = self.fault;
        *entering = match *entering {
            None => Some(Entering::Begun {
                min_created_at: request_epochs.at_least_min_created_at(Micros(i64::MIN)).0,
            }),
            Some(Entering::Begun { min_created_at }) => Some(Entering::Read {
                epoch: request_epochs.epoch(),
                min_created_at,
            }),
            Some(Entering::Read {
                epoch,
                min_created_at,
            }) => {
                request_epochs.begin(epoch);
                Some(Entering::Counted {
                    epoch,
                    min_created_at,
                })
            }
            Some(Entering::Counted {
                epoch,
                min_created_at,
            }) => {
                if request_epochs.epoch() == epoch || fault == Fault::NoSecondLook {
                    Some(Entering::Entered {
                        epoch,
                        min_created_at,
                    })
                } else {
                    request_epochs.end(epoch);
                    None
                }
            }
            Some(Entering::Entered {
                epoch,
                min_created_at,
            }) => Some(Entering::Timed {
                epoch,
                min_created_at,
                now: self.clock,
            }),
            Some(Entering::Timed {
                epoch,
                min_created_at,
                now,
            }) => {
                let created_at = match fault {
                    Fault::NoMinimum => now,
                    Fault::MinReadBeforeEpoch => now.max(min_created_at),
                    _ => request_epochs.at_least_min_created_at(Micros(now)).0,
                };
                under_way.push((epoch, created_at));
                None
            }
        };
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
                Advancing::Idle
            }
        };
    }

    fn pass(&mut self) {
        if let Some((time, end)) = self.named.front()
            && (self.shipped >= *end || self.fault == Fault::NoWaitForShipping)
        {
            self.watermark = *time;
            self.named.pop_front();
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let core = 0..CORES;
    prop_oneof![
        6 => core.clone().prop_map(Step::Enter),
        3 => core.clone().prop_map(Step::Submit),
        1 => core.prop_map(Step::GiveUp),
        3 => proptest::strategy::Just(Step::Ship),
        2 => any::<i8>().prop_map(Step::Tick),
        6 => proptest::strategy::Just(Step::Advance),
        2 => proptest::strategy::Just(Step::Pass),
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
        (0..300).any(|_| {
            let core = random.random_range(0..CORES);
            let step = match random.random_range(0..23) {
                0..6 => Step::Enter(core),
                6..9 => Step::Submit(core),
                9 => Step::GiveUp(core),
                10..13 => Step::Ship,
                13..15 => Step::Tick(random.random_range(-128..=127)),
                15..21 => Step::Advance,
                _ => Step::Pass,
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
            (Step::Ship, 1),
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
