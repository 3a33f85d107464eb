//! Refusals of imports, as they follow from the catalog's last decision on a project.

use super::quotas::LeaseDecision;
use std::time::{Duration, Instant};

/// Time in which other nodes use or give back what they hold, in seconds.
const GIVE_BACK_SECONDS: i64 = 3;
/// Time for which an answer of the catalog counts: a project is asked about once a second, however
/// many requests are refused.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Reason why events were not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportRefusal {
    /// An operator took the feature away from the organization.
    FeatureMissing,
    /// The request has more events than may come in a minute: it would never be admitted.
    TooLarge {
        /// Events that may come in a minute.
        per_minute: u64,
    },
    /// The project's volume has fewer events left than the request has.
    Volume {
        /// Events that it may still import.
        left: u64,
    },
    /// The project imports too fast.
    Rate {
        /// Seconds after which the events would be admitted.
        retry_after_seconds: u32,
        /// Events that may come in a minute.
        per_minute: u64,
    },
    /// The catalog does not answer.
    Unavailable,
}

/// Last decision of the catalog on a project.
#[derive(Clone, Copy, Debug)]
pub struct CatalogDecision {
    /// `None` if there is no such project any more, or the catalog did not answer.
    decision: Option<LeaseDecision>,
    at: Instant,
}

impl CatalogDecision {
    pub fn new(decision: Option<LeaseDecision>) -> Self {
        Self {
            decision,
            at: Instant::now(),
        }
    }

    /// Returns true while the decision counts, so that the catalog need not be asked again.
    pub fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH_FOR
    }

    /// Refusal of so many events by a node that has `available` of them; `None` if the catalog has
    /// enough by now.
    pub fn refusal(&self, events: u64, available: u64) -> Option<ImportRefusal> {
        let Some(decision) = &self.decision else {
            return Some(ImportRefusal::Unavailable);
        };
        if !decision.is_allowed {
            return Some(ImportRefusal::FeatureMissing);
        }
        let per_minute = decision.per_minute.max(1);
        let (events, available) = (signed(events), signed(available));
        let missing = events - available;
        let lacks_volume = missing > decision.free;
        if lacks_volume && missing > decision.free.saturating_add(decision.held_elsewhere) {
            let left = available + decision.free + decision.held_elsewhere;
            return match events > per_minute {
                // Checked first: it stays true when there is volume again.
                true => Some(too_large(per_minute)),
                false => Some(ImportRefusal::Volume {
                    left: unsigned(left),
                }),
            };
        }
        if events > per_minute {
            return Some(too_large(per_minute));
        }
        let lacks = missing - decision.in_bucket - self.filled(per_minute);
        if lacks <= 0 && !lacks_volume {
            return None;
        }
        let filled_after = seconds_for(lacks, per_minute);
        let waits_for_others = lacks_volume || events > per_minute - decision.held_elsewhere;
        let seconds = match waits_for_others {
            true => filled_after.max(GIVE_BACK_SECONDS),
            false => filled_after.max(1),
        };
        Some(ImportRefusal::Rate {
            retry_after_seconds: u32::try_from(seconds).unwrap_or(u32::MAX),
            per_minute: unsigned(per_minute),
        })
    }

    /// Events that came into the bucket since the decision.
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

/// Whole seconds in which so many events come at a rate.
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
