//! Core of the model: requests enter it step by step.

use super::fault::Fault;
use crate::watermark::CoreEpochs;
use millrace_rows::Micros;
use std::rc::Rc;

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

/// Core with the requests on it.
pub(super) struct Core {
    pub(super) request_epochs: Rc<CoreEpochs>,
    entering: Option<Entering>,
    /// Requests under way: their epoch, and the `created_at` of their row.
    pub(super) under_way: Vec<(u64, i64)>,
}

impl Core {
    pub(super) fn new(request_epochs: Rc<CoreEpochs>) -> Self {
        Self {
            request_epochs,
            entering: None,
            under_way: Vec::new(),
        }
    }

    /// Does the next step of the request that is entering, or begins one.
    pub(super) fn enter(&mut self, fault: Fault, clock: i64) {
        let Self {
            request_epochs,
            entering,
            under_way,
        } = self;
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
                now: clock,
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
}
