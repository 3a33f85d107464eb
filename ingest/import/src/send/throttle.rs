//! Throttle of the requests in flight, by additive increase and multiplicative decrease.
//!
//! The window grows by one for each round of successes. It is halved when the server is busy or
//! does not respond, or the project's rate limit is reached. Nothing is sent before the server's
//! `Retry-After` is over.

use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// Response time above which the server is overloaded.
const SLOW: Duration = Duration::from_secs(10);

/// Limits the requests in flight; shared by all requests of an import.
#[derive(Debug)]
pub struct Throttle {
    requests_max: f64,
    /// Number of requests in flight; successes add fractions.
    window: Cell<f64>,
    paused_until: Cell<Option<Instant>>,
    /// Time when the window was last halved: requests sent before do not halve it again.
    halved_at: Cell<Option<Instant>>,
    /// Most events of a request, as the server accepts them.
    events_max: Cell<usize>,
}

impl Throttle {
    /// Creates a throttle for at most `requests_max` requests in flight.
    #[must_use]
    pub fn new(requests_max: usize) -> Self {
        let requests_max = f64::from(u32::try_from(requests_max.max(1)).unwrap_or(u32::MAX));
        Self {
            requests_max,
            window: Cell::new(requests_max.min(2.0)),
            paused_until: Cell::new(None),
            halved_at: Cell::new(None),
            events_max: Cell::new(usize::MAX),
        }
    }

    /// Number of requests that may be in flight now.
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

    /// Most events that a request may have.
    #[must_use]
    pub fn events_max(&self) -> usize {
        self.events_max.get()
    }

    /// Lowers the limit on events after a request with this number of them was too large.
    pub fn too_large(&self, events: usize) {
        self.events_max
            .set(self.events_max.get().min(events.div_ceil(2).max(1)));
    }

    /// End of the pause, if there is one.
    #[must_use]
    pub fn paused_until(&self) -> Option<Instant> {
        self.paused_until
            .get()
            .filter(|until| *until > Instant::now())
    }

    /// Waits until the pause is over.
    pub async fn wait(&self) {
        while let Some(until) = self.paused_until() {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Notes that a request sent at `began` was accepted.
    pub fn succeeded(&self, began: Instant) {
        if began.elapsed() > SLOW {
            self.halve(began);
            return;
        }
        let window = self.window.get();
        self.window
            .set((window + 1.0 / window).min(self.requests_max));
    }

    /// Notes that a request sent at `began` failed, and pauses all requests for `after`.
    pub fn failed(&self, began: Instant, after: Duration) {
        let until = Instant::now() + after;
        let known = self.paused_until.get();
        self.paused_until
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
        let throttle = Throttle::new(8);
        assert_eq!(throttle.window(), 2);
        for _ in 0..100 {
            throttle.succeeded(Instant::now());
        }
        assert_eq!(throttle.window(), 8);
        let began = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        for _ in 0..8 {
            throttle.failed(began, Duration::from_secs(3));
        }
        assert_eq!(throttle.window(), 4);
        let closed = throttle.paused_until().unwrap();
        assert_eq!(closed, Instant::now() + Duration::from_secs(3));
        throttle.wait().await;
        assert!(Instant::now() >= closed && throttle.paused_until().is_none());
        throttle.failed(Instant::now(), Duration::ZERO);
        throttle.failed(Instant::now(), Duration::ZERO);
        throttle.failed(Instant::now(), Duration::ZERO);
        assert_eq!(throttle.window(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_gets_fewer_requests() {
        let throttle = Throttle::new(8);
        let began = Instant::now();
        tokio::time::advance(Duration::from_secs(11)).await;
        throttle.succeeded(began);
        assert_eq!(throttle.window(), 1);
    }

    #[test]
    fn the_limit_on_events_shrinks_when_a_request_was_too_large() {
        let throttle = Throttle::new(1);
        for (events, expected) in [(5_000, 2_500), (4_000, 2_000), (9_000, 2_000), (1, 1)] {
            throttle.too_large(events);
            assert_eq!(throttle.events_max(), expected);
        }
    }
}
