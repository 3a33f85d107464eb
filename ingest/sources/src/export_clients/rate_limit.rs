//! Rate limit of requests to a service.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Most requests in any second, and in any hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Most requests in any second.
    pub per_second: usize,
    /// Most requests in any hour.
    pub per_hour: usize,
}

/// Delays requests to keep a rate limit, in the order in which they come.
#[derive(Debug)]
pub(super) struct RateLimiter {
    limit: RateLimit,
    /// Times of the last hour's requests, the newest last.
    sent: Mutex<VecDeque<Instant>>,
}

impl RateLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self {
            limit,
            sent: Mutex::default(),
        }
    }

    /// Waits until one more request may be sent.
    pub(super) async fn acquire(&self) {
        let mut sent = self.sent.lock().await;
        let windows = [
            (self.limit.per_second, Duration::from_secs(1)),
            (self.limit.per_hour, Duration::from_secs(3_600)),
        ];
        for (count, window) in windows {
            // The request that must leave the window before this one is sent.
            let last = sent
                .len()
                .checked_sub(count.max(1))
                .and_then(|index| sent.get(index));
            if let Some(last) = last {
                sleep_until(*last + window).await;
            }
        }
        let kept = self.limit.per_hour.max(self.limit.per_second).max(1);
        while sent.len() >= kept {
            sent.pop_front();
        }
        sent.push_back(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_limits_hold_in_every_window() {
        let limiter = RateLimiter::new(RateLimit {
            per_second: 3,
            per_hour: 10,
        });
        let start = Instant::now();
        let mut seconds = Vec::new();
        for _ in 0..25 {
            limiter.acquire().await;
            seconds.push(start.elapsed().as_secs());
        }
        let expected = [
            0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3_600, 3_600, 3_600, 3_601, 3_601, 3_601, 3_602, 3_602,
            3_602, 3_603, 7_200, 7_200, 7_200, 7_201, 7_201,
        ];
        assert_eq!(seconds, expected);
    }
}
