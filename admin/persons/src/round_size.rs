//! Number of updates in a part of a round: as many as are applied and copied in the time that the
//! part should take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Number of updates that a part of the next round reads at most.
#[derive(Debug)]
pub(crate) struct RoundSize {
    updates: AtomicUsize,
    updates_max: usize,
    /// Smallest number: each round costs a few queries, whatever it reads.
    updates_min: usize,
}

/// Updates of one round, and the time that they took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredRound {
    pub updates: usize,
    /// True if more were waiting.
    pub is_cut: bool,
    pub took: Duration,
}

impl RoundSize {
    /// Begins with the largest round; the smallest is the `smallest`th part of it.
    pub(crate) const fn new(updates_max: usize, smallest: usize) -> Self {
        Self {
            updates: AtomicUsize::new(updates_max),
            updates_max,
            updates_min: updates_max.div_ceil(smallest),
        }
    }

    /// Number of updates.
    pub(crate) fn get(&self) -> usize {
        self.updates.load(Ordering::Relaxed)
    }

    /// Part of `bytes_max` that the number of updates is of the largest.
    pub(crate) fn bytes(&self, bytes_max: usize) -> usize {
        bytes_max.saturating_mul(self.get()) / self.updates_max.max(1)
    }

    /// Makes the next round as large as fits into `time_max`. Smaller at once, as others wait for
    /// each round that is too large, unless no round could have been quicker than this one. Larger
    /// by the double at most, if this one took less than three quarters of that and left something.
    pub(crate) fn adapt(&self, round: MeasuredRound, time_max: Duration) {
        let now = self.get();
        let fitting = round.updates as u128 * time_max.as_micros();
        let fitting = fitting / round.took.as_micros().max(1);
        let fitting = usize::try_from(fitting).unwrap_or(usize::MAX);
        let is_limited = round.is_cut || round.updates > self.updates_min;
        let next = if round.took > time_max && is_limited {
            fitting.clamp(self.updates_min, now)
        } else if round.is_cut && round.took < time_max * 3 / 4 {
            fitting
                .clamp(now, now.saturating_mul(2))
                .min(self.updates_max)
        } else {
            now
        };
        self.updates.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(updates: usize, is_cut: bool, millis: u64) -> MeasuredRound {
        MeasuredRound {
            updates,
            is_cut,
            took: Duration::from_millis(millis),
        }
    }

    const TIME_MAX: Duration = Duration::from_secs(1);

    #[test]
    fn a_round_is_as_large_as_its_time_allows() {
        let size = RoundSize::new(1_000, 10);
        let mut after = |millis| {
            size.adapt(measured(size.get(), true, millis), TIME_MAX);
            size.get()
        };
        assert_eq!([2_000; 5].map(&mut after), [500, 250, 125, 100, 100]);
        assert_eq!([800, 1_000].map(&mut after), [100, 100]);
        assert_eq!([700, 740].map(&mut after), [142, 191]);
        assert_eq!([200; 4].map(&mut after), [382, 764, 1_000, 1_000]);
    }

    #[test]
    fn the_round_after_one_that_took_too_long_fits_at_once() {
        for (updates, millis, expected) in [
            (1_000, 4_000, 250),
            (1_000, 60_000, 100),
            (400, 2_000, 200),
            (3, 1_001, 100),
        ] {
            let size = RoundSize::new(1_000, 10);
            size.adapt(measured(updates, true, millis), TIME_MAX);
            assert_eq!(size.get(), expected, "{updates} in {millis} ms");
            assert_eq!(size.bytes(64_000), 64 * expected);
        }
    }

    #[test]
    fn a_slow_round_of_few_updates_that_left_nothing_makes_no_round_smaller() {
        let size = RoundSize::new(1_000, 10);
        for (updates, is_cut, expected) in [(100, false, 1_000), (101, false, 100)] {
            size.adapt(measured(updates, is_cut, 1_001), TIME_MAX);
            assert_eq!(size.get(), expected, "{updates}");
        }
    }

    #[test]
    fn quick_rounds_that_leave_nothing_make_no_round_larger() {
        let size = RoundSize::new(1_000, 10);
        size.adapt(measured(1_000, true, 10_000), TIME_MAX);
        size.adapt(measured(3, false, 1), TIME_MAX);
        assert_eq!(size.get(), 100);
    }
}
