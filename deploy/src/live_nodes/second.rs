//! One second of a viewer's stream: its sample of all nodes' events, and its numbers.

use millrace_live::{LiveRate, Sampler};

/// Second that is under way.
#[derive(Debug, Default)]
pub(super) struct Second {
    sampler: Sampler,
    /// Sum of the numbers that nodes told.
    told: LiveRate,
    shown: u64,
    dropped: u64,
}

impl Second {
    /// Returns true if an event of a node is shown.
    pub(super) fn takes(&mut self) -> bool {
        self.sampler.takes()
    }

    /// Notes an event that was sent to the viewer, or dropped.
    pub(super) fn note_shown(&mut self, is_sent: bool) {
        match is_sent {
            true => self.shown += 1,
            false => self.dropped += 1,
        }
    }

    /// Notes events that the viewer is not told of.
    pub(super) fn note_dropped(&mut self, events: u64) {
        self.dropped = self.dropped.saturating_add(events);
    }

    /// Adds the numbers of a node.
    pub(super) fn add(&mut self, rate: LiveRate) {
        self.told = self.told.plus(rate);
    }

    /// Ends the second, of which so many nodes told and others did not; returns its numbers.
    pub(super) fn end(&mut self, nodes: usize, nodes_missing: usize) -> LiveRate {
        self.sampler.begin_second();
        let told = std::mem::take(&mut self.told);
        LiveRate {
            shown: std::mem::take(&mut self.shown),
            dropped: told
                .dropped
                .saturating_add(std::mem::take(&mut self.dropped)),
            nodes: u32::try_from(nodes).unwrap_or(u32::MAX),
            nodes_missing: u32::try_from(nodes_missing).unwrap_or(u32::MAX),
            ..told
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_node(matching: u64, dropped: u64) -> LiveRate {
        LiveRate {
            events: 1_000,
            unseen: 5,
            matching,
            shown: 50,
            dropped,
            nodes: 1,
            nodes_missing: 0,
        }
    }

    #[test]
    fn numbers_are_the_sums_of_all_nodes_and_what_was_sent_here() {
        let mut second = Second::default();
        let shown = (0..100).filter(|_| second.takes()).count();
        assert_eq!(shown, 50, "of 50 of two nodes each");
        for number in 0..50 {
            second.note_shown(number != 7);
        }
        second.note_dropped(3);
        second.add(of_node(600, 0));
        second.add(of_node(400, 2));
        let expected = LiveRate {
            events: 2_000,
            unseen: 10,
            matching: 1_000,
            shown: 49,
            dropped: 6,
            nodes: 2,
            nodes_missing: 1,
        };
        assert_eq!(second.end(2, 1), expected);
        let nothing = LiveRate {
            nodes_missing: 3,
            ..LiveRate::default()
        };
        assert_eq!(second.end(0, 3), nothing, "each second by itself");
    }
}
