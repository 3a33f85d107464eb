//! Search for the highest rate that keeps the 99th percentile below a bound.
//!
//! The runs are open-loop: a closed loop slows down with the server and would keep any bound.

use crate::plan::{Mode, Plan};
use crate::run::run_observed;
use crate::stop::Stop;
use crate::summary::Summary;
use anyhow::{Result, ensure};

/// Share of the due events that must be acknowledged for a rate to count as kept.
const ANSWERED_MIN: f64 = 0.99;

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Bound on p99 in milliseconds.
    pub p99_ms_max: f64,
    /// Rate of the first run in events per second.
    pub first_events_per_second: f64,
    /// Relative difference between the rates kept and not kept at which the search ends.
    pub precision: f64,
}

/// A step of the search.
#[derive(Clone, Debug)]
pub struct Step {
    /// Rate of the step in events per second.
    pub events_per_second: f64,
    /// True if the bound was kept, without failures.
    pub kept: bool,
    /// Summary of the step's run.
    pub summary: Summary,
}

/// Doubles the rate until the bound is broken, then halves the interval. Returns the best run that
/// kept the bound, if any did.
///
/// # Errors
/// A run could not be made, or the search makes no sense.
pub fn max_rate(
    plan: &Plan,
    search: Search,
    stop: &Stop,
    observe: &mut dyn FnMut(&Step),
) -> Result<Option<Summary>> {
    ensure!(
        search.first_events_per_second > 0.0 && search.precision > 0.0,
        "the first rate and the precision must be above 0"
    );
    let mut bounds = Bounds::default();
    let mut best = None;
    while let Some(rate) = bounds.next(search) {
        let mut plan = plan.clone();
        plan.mode = Mode::Open {
            events_per_second: rate,
        };
        let summary = run_observed(&plan, stop, &mut |_| {})?;
        if stop.is_asked() {
            break;
        }
        let step = Step {
            events_per_second: rate,
            kept: is_kept(&summary, rate, search.p99_ms_max),
            summary,
        };
        observe(&step);
        bounds.narrow(rate, step.kept);
        if step.kept {
            best = Some(step.summary);
        }
    }
    Ok(best)
}

fn is_kept(summary: &Summary, rate: f64, p99_ms_max: f64) -> bool {
    summary.window.failed_requests == 0
        && summary.latency.count > 0
        && summary.latency.p99_us <= p99_ms_max * 1000.0
        && summary.events_per_second >= rate * ANSWERED_MIN
}

/// Rates known so far to be kept and not kept.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    kept: Option<f64>,
    not_kept: Option<f64>,
}

impl Bounds {
    /// Takes over the outcome of a step at this rate.
    fn narrow(&mut self, rate: f64, kept: bool) {
        *(if kept {
            &mut self.kept
        } else {
            &mut self.not_kept
        }) = Some(rate);
    }

    /// Next rate to try; `None` if the result is precise enough, or no rate is kept.
    fn next(self, search: Search) -> Option<f64> {
        match (self.kept, self.not_kept) {
            (None, None) => Some(search.first_events_per_second),
            (Some(kept), None) => Some(kept * 2.0),
            (None, Some(not_kept)) => {
                let rate = not_kept / 2.0;
                (rate >= search.first_events_per_second / 1024.0).then_some(rate)
            }
            (Some(kept), Some(not_kept)) => {
                (not_kept / kept - 1.0 > search.precision).then(|| f64::midpoint(kept, not_kept))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEARCH: Search = Search {
        p99_ms_max: 5.0,
        first_events_per_second: 1000.0,
        precision: 0.05,
    };

    fn search(capacity: f64) -> (Bounds, u32) {
        let (mut bounds, mut runs) = (Bounds::default(), 0);
        while let Some(rate) = bounds.next(SEARCH) {
            bounds.narrow(rate, rate <= capacity);
            runs += 1;
        }
        (bounds, runs)
    }

    proptest! {
        #[test]
        fn the_search_ends_just_below_the_capacity(capacity in 2.0..1e8_f64) {
            let (bounds, runs) = search(capacity);
            let kept = bounds.kept.unwrap();
            prop_assert!(kept <= capacity && capacity < kept * 1.05, "{kept} {capacity}");
            prop_assert!(runs < 40, "{runs}");
        }
    }

    #[test]
    fn a_bound_that_no_rate_keeps_ends_the_search() {
        assert_eq!(search(0.0).0.kept, None);
    }
}
