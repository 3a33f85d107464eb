//! Why events may not be imported now.

use millrace_catalog::SliceDecision;
use std::time::{Duration, Instant};

/// How long other nodes take to give back what they do not need, in seconds: they look every second.
const GIVE_BACK_SECONDS: i64 = 3;
/// How long an answer of the catalog is believed: a project is asked about once a second, however
/// many requests are refused.
const BELIEVED: Duration = Duration::from_secs(1);

/// Why events were not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportRefusal {
    /// An operator took the feature away from the organization.
    FeatureMissing,
    /// The request has more events than may come in a minute: it would never be admitted.
    TooLarge {
        /// Events that may come in a minute.
        per_minute: u64,
    },
    /// The project may not import as many events any more.
    Volume {
        /// Events that it may still import.
        left: u64,
    },
    /// Too fast.
    Rate {
        /// After so many seconds they would be admitted.
        retry_after_seconds: u32,
        /// Events that may come in a minute.
        per_minute: u64,
    },
    /// The catalog does not answer.
    Unavailable,
}

/// What the catalog said of a project last.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// `None`: there is no such project any more.
    decision: Option<SliceDecision>,
    at: Instant,
}

impl Verdict {
    pub fn new(decision: Option<SliceDecision>) -> Self {
        Self {
            decision,
            at: Instant::now(),
        }
    }

    /// Whether to look here rather than ask again.
    pub fn is_fresh(&self) -> bool {
        self.at.elapsed() < BELIEVED
    }

    /// Why so many events cannot be admitted by a node that has `available` of them; `None` if the
    /// catalog has enough by now.
    pub fn refusal(&self, events: u64, available: u64) -> Option<ImportRefusal> {
        let Some(said) = &self.decision else {
            return Some(ImportRefusal::Unavailable);
        };
        if !said.is_allowed {
            return Some(ImportRefusal::FeatureMissing);
        }
        let per_minute = said.per_minute.max(1);
        let (events, available) = (signed(events), signed(available));
        let missing = events - available;
        let lacks_volume = missing > said.free;
        if lacks_volume && missing > said.free.saturating_add(said.held_elsewhere) {
            let left = available + said.free + said.held_elsewhere;
            return match events > per_minute {
                // Said first: it stays true when there is volume again.
                true => Some(too_large(per_minute)),
                false => Some(ImportRefusal::Volume {
                    left: unsigned(left),
                }),
            };
        }
        if events > per_minute {
            return Some(too_large(per_minute));
        }
        let lacks = missing - said.in_bucket - self.filled(per_minute);
        if lacks <= 0 && !lacks_volume {
            return None;
        }
        let filled_after = seconds_for(lacks, per_minute);
        let waits_for_others = lacks_volume || events > per_minute - said.held_elsewhere;
        let seconds = match waits_for_others {
            true => filled_after.max(GIVE_BACK_SECONDS),
            false => filled_after.max(1),
        };
        Some(ImportRefusal::Rate {
            retry_after_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
            per_minute: unsigned(per_minute),
        })
    }

    /// What the bucket got since.
    fn filled(&self, per_minute: i64) -> i64 {
        let passed = i64::try_from(self.at.elapsed().as_micros()).unwrap_or(i64::MAX);
        passed.saturating_mul(per_minute) / 60_000_000
    }
}

fn too_large(per_minute: i64) -> ImportRefusal {
    ImportRefusal::TooLarge {
        per_minute: unsigned(per_minute),
    }
}

/// Whole seconds in which a rate brings so many events.
fn seconds_for(events: i64, per_minute: i64) -> i64 {
    let events = events.max(0).saturating_mul(60);
    events / per_minute + i64::from(events % per_minute > 0)
}

fn signed(events: u64) -> i64 {
    i64::try_from(events).unwrap_or(i64::MAX)
}

fn unsigned(events: i64) -> u64 {
    u64::try_from(events).unwrap_or(0)
}
