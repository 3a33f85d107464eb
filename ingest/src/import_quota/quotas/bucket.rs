//! Token bucket of a project's import rate, shared by all nodes.
//!
//! Events that nodes hold and have not used count as if they were in the bucket: otherwise a node
//! could save up events and let them in on top of a full bucket. So in any time T all nodes
//! together let in no more events than those of one minute and of T.

/// Units of an event: a rate of one event a minute adds one unit in a microsecond.
const UNITS_PER_EVENT: i64 = 60_000_000;
/// Highest rate; higher ones count as this, so that the units of a minute fit: 1.6 billion a
/// second.
pub const EVENTS_PER_MINUTE_MAX: i64 = 100_000_000_000;

/// Token bucket of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Units in the bucket, in sixty-millionths of an event.
    pub units: i64,
    /// Rate by which it was filled, and its capacity; 0: full at any rate.
    pub per_minute: i64,
    /// Time up to which it was filled, in microseconds.
    pub at: i64,
}

impl Bucket {
    /// Full bucket, whatever the rate will be.
    pub const FULL: Self = Self {
        units: 0,
        per_minute: 0,
        at: 0,
    };

    /// Fills the bucket up to now. `held`: events that nodes hold. Where the rate has risen, what
    /// it adds to a full bucket is available at once.
    pub fn fill(&mut self, now: i64, per_minute: i64, held: i64) {
        let per_minute = per_minute.clamp(1, EVENTS_PER_MINUTE_MAX);
        let passed = now.saturating_sub(self.at).max(0);
        let filled = passed.saturating_mul(per_minute.min(self.per_minute));
        let risen = (per_minute - self.per_minute).max(0) * UNITS_PER_EVENT;
        let units = self.units.saturating_add(filled).saturating_add(risen);
        let units_max = per_minute.saturating_sub(held).max(0) * UNITS_PER_EVENT;
        self.units = units.min(units_max);
        self.per_minute = per_minute;
        self.at = self.at.max(now);
    }

    /// Whole events that may be taken out.
    pub const fn events(&self) -> i64 {
        self.units / UNITS_PER_EVENT
    }

    /// Takes events out; the bucket owes what it does not hold.
    pub const fn take(&mut self, events: i64) {
        self.units -= events * UNITS_PER_EVENT;
    }

    /// Puts back events that were taken out and not used. The next [`fill`](Self::fill) drops what
    /// exceeds the capacity.
    pub const fn put_back(&mut self, events: i64) {
        let units = events.saturating_mul(UNITS_PER_EVENT);
        self.units = self.units.saturating_add(units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn a_new_bucket_holds_a_minutes_events_and_refills_by_the_microsecond() {
        let mut bucket = Bucket::FULL;
        bucket.fill(7 * SECOND, 60, 0);
        assert_eq!(bucket.events(), 60);
        bucket.take(60);
        bucket.fill(8 * SECOND - 1, 60, 0);
        assert_eq!(bucket.events(), 0);
        bucket.fill(8 * SECOND, 60, 0);
        assert_eq!(bucket.events(), 1);
        bucket.fill(7 * SECOND, 60, 0);
        assert_eq!(bucket.events(), 1, "a clock that goes back changes nothing");
        bucket.fill(1_000 * SECOND, 60, 0);
        assert_eq!(bucket.events(), 60);
    }

    #[test]
    fn a_higher_rate_fills_at_once_and_a_lower_rate_holds_less() {
        let mut bucket = Bucket::FULL;
        bucket.fill(0, 100, 0);
        bucket.take(100);
        bucket.fill(0, 250, 0);
        assert_eq!(bucket.events(), 150);
        bucket.fill(0, 40, 0);
        assert_eq!(bucket.events(), 40);
        bucket.fill(0, i64::MAX, 0);
        assert_eq!(bucket.events(), EVENTS_PER_MINUTE_MAX);
    }

    proptest! {
        /// Events are taken, held, used and given back in any order: in no time more are used than
        /// those of one minute and of the time.
        #[test]
        fn no_period_exceeds_one_minutes_events_and_its_own(
            per_minute in 1_i64..5_000,
            steps in prop::collection::vec((0_i64..20 * SECOND, 0_i64..3_000, 0_i64..3_000), 1..60),
        ) {
            let mut bucket = Bucket::FULL;
            let (mut now, mut held) = (0, 0);
            let mut uses: Vec<(i64, i64)> = Vec::new();
            for (passed, wanted, used) in steps {
                now += passed;
                bucket.fill(now, per_minute, held);
                let taken = wanted.min(bucket.events());
                bucket.take(taken);
                held += taken;
                let used = used.min(held);
                held -= used;
                uses.push((now, used));
                if wanted % 3 == 0 {
                    bucket.put_back(held);
                    held = 0;
                }
            }
            for (first, (from, _)) in uses.iter().enumerate() {
                let mut sum = 0;
                for (at, used) in &uses[first..] {
                    sum += used;
                    let allowed = per_minute * UNITS_PER_EVENT + (at - from) * per_minute;
                    prop_assert!(sum * UNITS_PER_EVENT <= allowed, "{sum} in {}", at - from);
                }
            }
        }
    }
}
