//! Events that a viewer was shown as logged, or waits for, and that are not in ClickHouse yet.
//!
//! Rows that ClickHouse refuses for good count as stored: their position is shipped, and they are
//! among the dead letters.

use crate::event::LiveEvent;
use crate::shipped::ShippedPositions;
use millrace_log::Position;
use millrace_rows::Lane;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most events of a viewer that are waited for; the oldest ones are forgotten for newer ones.
const WAITING_MAX: usize = 1_024;
/// Most events among them that are kept, to be shown once they are stored.
const KEPT_MAX: usize = 64;

/// Event that is logged and not stored.
#[derive(Clone, Debug)]
pub struct Unstored {
    pub lane: Lane,
    pub position: Position,
    pub shown: Shown,
}

/// Event, as far as it is needed once it is stored.
#[derive(Clone, Debug)]
pub enum Shown {
    /// It was shown before; its id in the stream.
    Before(String),
    /// It is shown when it is stored.
    Then(Arc<LiveEvent>),
}

/// Events of a viewer that are not stored.
#[derive(Debug, Default)]
pub struct UnstoredEvents {
    waiting: VecDeque<Unstored>,
    kept: usize,
}

// === impl UnstoredEvents ===

impl UnstoredEvents {
    /// Adds an event; returns the number of kept events that were forgotten for it.
    pub fn push(&mut self, event: Unstored) -> u64 {
        let is_kept = matches!(event.shown, Shown::Then(_));
        let mut forgotten = 0;
        while self.waiting.len() >= WAITING_MAX || (is_kept && self.kept >= KEPT_MAX) {
            match self.waiting.pop_front().map(|oldest| oldest.shown) {
                Some(Shown::Then(_)) => {
                    self.kept -= 1;
                    forgotten += 1;
                }
                Some(Shown::Before(_)) => {}
                None => break,
            }
        }
        self.kept += usize::from(is_kept);
        self.waiting.push_back(event);
        forgotten
    }

    /// Takes the events that are stored by now.
    pub fn take_stored(&mut self, shipped: &ShippedPositions) -> Vec<Unstored> {
        let is_stored = |event: &Unstored| shipped.of(event.lane) >= event.position;
        if !self.waiting.iter().any(is_stored) {
            return Vec::new();
        }
        let mut stored = Vec::new();
        for event in std::mem::take(&mut self.waiting) {
            if is_stored(&event) {
                self.kept -= usize::from(matches!(event.shown, Shown::Then(_)));
                stored.push(event);
            } else {
                self.waiting.push_back(event);
            }
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::decoded;
    use crate::testing::{event_group, facts, logged};
    use tokio::sync::watch;

    fn at(offset: u64) -> Position {
        Position { segment: 1, offset }
    }

    fn shown_before(lane: Lane, offset: u64) -> Unstored {
        Unstored {
            lane,
            position: at(offset),
            shown: Shown::Before(offset.to_string()),
        }
    }

    fn ids(events: &[Unstored]) -> Vec<u64> {
        events.iter().map(|event| event.position.offset).collect()
    }

    #[test]
    fn events_are_stored_once_their_lane_is_shipped_up_to_them() {
        let (live, live_shipped) = watch::channel(at(0));
        let (historical, historical_shipped) = watch::channel(at(0));
        let shipped = ShippedPositions {
            live: live_shipped,
            historical: historical_shipped,
        };
        let mut events = UnstoredEvents::default();
        for (lane, offset) in [
            (Lane::Live, 20),
            (Lane::Live, 10),
            (Lane::Historical, 10),
            (Lane::Live, 30),
        ] {
            events.push(shown_before(lane, offset));
        }
        assert!(events.take_stored(&shipped).is_empty());
        live.send_replace(at(20));
        assert_eq!(ids(&events.take_stored(&shipped)), [20_u64, 10]);
        assert!(events.take_stored(&shipped).is_empty(), "each once");
        live.send_replace(at(40));
        historical.send_replace(at(9));
        assert_eq!(ids(&events.take_stored(&shipped)), [30_u64]);
        historical.send_replace(at(10));
        assert_eq!(ids(&events.take_stored(&shipped)), [10_u64]);
    }

    #[test]
    fn the_oldest_events_are_forgotten_and_kept_ones_are_counted() {
        let (_live, shipped) = watch::channel(at(u64::MAX));
        let shipped = ShippedPositions {
            live: shipped.clone(),
            historical: shipped,
        };
        let mut events = UnstoredEvents::default();
        for offset in 0..2_000 {
            assert_eq!(events.push(shown_before(Lane::Live, offset)), 0);
        }
        assert_eq!(events.take_stored(&shipped).len(), WAITING_MAX);
        let group = vec![event_group(202_611, &["a"])];
        let event = decoded(&logged(group, facts(1, 0)), || 1).remove(0);
        let event = Arc::new(event);
        let kept = || Unstored {
            shown: Shown::Then(Arc::clone(&event)),
            ..shown_before(Lane::Live, 1)
        };
        let forgotten: u64 = (0..100).map(|_| events.push(kept())).sum();
        assert_eq!(forgotten, 100 - KEPT_MAX as u64);
        assert_eq!(events.take_stored(&shipped).len(), KEPT_MAX);
        assert_eq!(events.push(kept()), 0, "those that were taken are not kept");
    }
}
