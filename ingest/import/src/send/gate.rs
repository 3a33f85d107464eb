//! How many requests are under way at once, and when to wait.
//!
//! The number grows by one for each round of successes and is halved when the server is too busy, is silent, or the
//! project's rate is reached; nobody sends before the server's `Retry-After` is over.

use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// Slower than this the server has more to do than it can.
const SLOW: Duration = Duration::from_secs(10);

/// Shared by all requests of an import.
#[derive(Debug)]
pub struct Gate {
    requests_max: f64,
    /// Whole requests, and the part of the next one that successes have earned.
    window: Cell<f64>,
    closed_until: Cell<Option<Instant>>,
    /// When the window was last halved: the answers to requests of before say nothing new.
    halved_at: Cell<Option<Instant>>,
    /// Events of a request, as the server lets through.
    events_max: Cell<usize>,
}

impl Gate {
    /// For at most so many requests at once.
    #[must_use]
    pub fn new(requests_max: usize) -> Self {
        let requests_max = f64::from(u32::try_from(requests_max.max(1)).unwrap_or(u32::MAX));
        Self {
            requests_max,
            window: Cell::new(requests_max.min(2.0)),
            closed_until: Cell::new(None),
            halved_at: Cell::new(None),
            events_max: Cell::new(usize::MAX),
        }
    }

    /// How many requests may be under way now.
    #[must_use]
    pub fn window(&self) -> usize {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between one and requests_max"
        )]
        let whole = self.window.get() as usize;
        whole.max(1)
    }

    /// How many events a request may have.
    #[must_use]
    pub fn events_max(&self) -> usize {
        self.events_max.get()
    }

    /// A request of so many events was too large.
    pub fn too_large(&self, events: usize) {
        self.events_max
            .set(self.events_max.get().min(events.div_ceil(2).max(1)));
    }

    /// When the gate opens, if it is closed.
    #[must_use]
    pub fn closed_until(&self) -> Option<Instant> {
        self.closed_until
            .get()
            .filter(|until| *until > Instant::now())
    }

    /// Waits until it is open.
    pub async fn wait(&self) {
        while let Some(until) = self.closed_until() {
            tokio::time::sleep_until(until).await;
        }
    }

    /// A request that began then was taken.
    pub fn succeeded(&self, began: Instant) {
        if began.elapsed() > SLOW {
            self.halve(began);
            return;
        }
        let window = self.window.get();
        self.window
            .set((window + 1.0 / window).min(self.requests_max));
    }

    /// A request that began then was not, and nothing may be sent for so long.
    pub fn failed(&self, began: Instant, after: Duration) {
        let until = Instant::now() + after;
        let known = self.closed_until.get();
        self.closed_until
            .set(Some(known.map_or(until, |known| known.max(until))));
        self.halve(began);
    }

    fn halve(&self, began: Instant) {
        if self.halved_at.get().is_none_or(|at| began >= at) {
            self.window.set((self.window.get() / 2.0).max(1.0));
            self.halved_at.set(Some(Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_window_grows_by_one_a_round_and_is_halved_once_for_requests_of_one_round() {
        let gate = Gate::new(8);
        assert_eq!(gate.window(), 2);
        for _ in 0..100 {
            gate.succeeded(Instant::now());
        }
        assert_eq!(gate.window(), 8);
        let began = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..8 {
            gate.failed(began, Duration::from_secs(3));
        }
        assert_eq!(gate.window(), 4);
        let closed = gate.closed_until().unwrap();
        assert_eq!(closed, Instant::now() + Duration::from_secs(3));
        gate.wait().await;
        assert!(Instant::now() >= closed && gate.closed_until().is_none());
        gate.failed(Instant::now(), Duration::ZERO);
        gate.failed(Instant::now(), Duration::ZERO);
        gate.failed(Instant::now(), Duration::ZERO);
        assert_eq!(gate.window(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_gets_fewer_requests() {
        let gate = Gate::new(8);
        let began = Instant::now();
        tokio::time::advance(Duration::from_secs(11)).await;
        gate.succeeded(began);
        assert_eq!(gate.window(), 1);
    }

    #[test]
    fn requests_shrink_by_what_was_too_large() {
        let gate = Gate::new(1);
        for (events, expected) in [(5_000, 2_500), (4_000, 2_000), (9_000, 2_000), (1, 1)] {
            gate.too_large(events);
            assert_eq!(gate.events_max(), expected);
        }
    }
}
