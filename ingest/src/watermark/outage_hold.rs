//! Hold of a node's watermark after an outage of the catalog.
//!
//! A node that started during the outage has accepted events and is not registered yet, so exports
//! do not wait for it. It registers within seconds once the catalog answers. Until then the others
//! say only that they live: had they published their watermarks at once, exports could pass events
//! that it accepted.

use std::time::Duration;
use tokio::time::Instant;

/// Shortest outage in which a node may have started without the catalog: such a start waits longer.
const OUTAGE_MIN: Duration = Duration::from_secs(4);
/// Time that a node has to register, from when the catalog answers again.
const HOLD: Duration = Duration::from_secs(15);

/// Hold of the watermark.
#[derive(Debug, Default)]
pub(super) struct OutageHold {
    /// Beginning of the first of the attempts that failed.
    failing_since: Option<Instant>,
    until: Option<Instant>,
}

impl OutageHold {
    /// Returns true while no watermark may be published.
    pub(super) fn holds(&self) -> bool {
        let is_outage = self.failing_since.is_some_and(is_long);
        is_outage || self.until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes an attempt that failed, by its beginning.
    pub(super) fn failed(&mut self, begun: Instant) {
        self.failing_since.get_or_insert(begun);
    }

    /// Notes an answer of the catalog.
    pub(super) fn answered(&mut self) {
        if self.failing_since.take().is_some_and(is_long) {
            self.begin();
        }
    }

    /// Begins the hold, as after an outage.
    pub(super) fn begin(&mut self) {
        self.until = Some(Instant::now() + HOLD);
    }
}

fn is_long(since: Instant) -> bool {
    since.elapsed() >= OUTAGE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_watermark_is_held_while_the_catalog_is_away_and_until_nodes_have_registered() {
        let second = Duration::from_secs(1);
        let mut hold = OutageHold::default();
        hold.failed(Instant::now());
        tokio::time::advance(OUTAGE_MIN - second).await;
        assert!(!hold.holds(), "a short failure");
        hold.answered();
        assert!(!hold.holds());
        hold.failed(Instant::now());
        tokio::time::advance(OUTAGE_MIN).await;
        hold.failed(Instant::now());
        assert!(hold.holds(), "the next attempt may be answered");
        hold.answered();
        tokio::time::advance(HOLD - second).await;
        hold.answered();
        assert!(hold.holds());
        tokio::time::advance(second).await;
        assert!(!hold.holds());
    }
}
