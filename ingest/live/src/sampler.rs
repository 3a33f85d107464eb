//! Sample of the events of a viewer, where there are more than can be read.
//!
//! The rate of a second decides how many are left out in the next one, so that a sample is spread
//! over a second, except in the first second of a rush.

/// Most events that a viewer is shown in a second.
pub const SHOWN_PER_SECOND_MAX: u64 = 50;

/// Sampler of one viewer.
#[derive(Debug)]
pub struct Sampler {
    /// One in so many is shown.
    stride: u64,
    /// Events of this second.
    matching: u64,
    shown: u64,
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            stride: 1,
            matching: 0,
            shown: 0,
        }
    }
}

impl Sampler {
    /// Counts an event that the viewer wants; returns true if it is shown.
    #[must_use]
    pub fn takes(&mut self) -> bool {
        let is_turn = self.matching.is_multiple_of(self.stride);
        let is_shown = is_turn && self.shown < SHOWN_PER_SECOND_MAX;
        self.matching += 1;
        self.shown += u64::from(is_shown);
        is_shown
    }

    /// Begins the next second; returns the number of events of the last one.
    pub fn begin_second(&mut self) -> u64 {
        let matching = std::mem::take(&mut self.matching);
        self.shown = 0;
        self.stride = matching.div_ceil(SHOWN_PER_SECOND_MAX).max(1);
        matching
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of the events that are shown of a second with so many.
    fn second(sampler: &mut Sampler, events: u64) -> Vec<u64> {
        let shown = (0..events).filter(|_| sampler.takes()).collect();
        assert_eq!(sampler.begin_second(), events);
        shown
    }

    #[test]
    fn all_are_shown_up_to_the_limit_and_a_spread_sample_beyond() {
        let mut sampler = Sampler::default();
        assert_eq!(second(&mut sampler, 50).len(), 50);
        // The rush is not known yet: its first events are shown.
        assert_eq!(second(&mut sampler, 1_000), (0..50_u64).collect::<Vec<_>>());
        let spread: Vec<_> = (0..1_000_u64).step_by(20).collect();
        assert_eq!(second(&mut sampler, 1_000), spread);
        assert_eq!(second(&mut sampler, 40), [0_u64, 20]);
        assert_eq!(second(&mut sampler, 40).len(), 40);
        assert!(second(&mut sampler, 0).is_empty());
    }
}
