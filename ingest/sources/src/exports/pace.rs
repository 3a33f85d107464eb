//! How often a service may be asked.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// So many requests in any second, and in any hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// In any second.
    pub per_second: usize,
    /// In any hour.
    pub per_hour: usize,
}

/// Keeps a pace: whoever asks waits until it may be asked, in the order in which they came.
#[derive(Debug)]
pub(super) struct Gate {
    pace: Pace,
    /// When the last hour's requests were let through, the newest last.
    passed: Mutex<VecDeque<Instant>>,
}

impl Gate {
    pub(super) fn new(pace: Pace) -> Self {
        Self {
            pace,
            passed: Mutex::default(),
        }
    }

    /// Waits until one more request may be made.
    pub(super) async fn pass(&self) {
        let mut passed = self.passed.lock().await;
        let windows = [
            (self.pace.per_second, Duration::from_secs(1)),
            (self.pace.per_hour, Duration::from_secs(3_600)),
        ];
        for (count, window) in windows {
            // The request that has to be out of the window before this one comes in.
            let last = passed
                .len()
                .checked_sub(count.max(1))
                .and_then(|place| passed.get(place));
            if let Some(last) = last {
                sleep_until(*last + window).await;
            }
        }
        let kept = self.pace.per_hour.max(self.pace.per_second).max(1);
        while passed.len() >= kept {
            passed.pop_front();
        }
        passed.push_back(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn both_limits_hold_in_every_window() {
        let gate = Gate::new(Pace {
            per_second: 3,
            per_hour: 10,
        });
        let start = Instant::now();
        let mut seconds = Vec::new();
        for _ in 0..25 {
            gate.pass().await;
            seconds.push(start.elapsed().as_secs());
        }
        let expected = [
            0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3_600, 3_600, 3_600, 3_601, 3_601, 3_601, 3_602, 3_602,
            3_602, 3_603, 7_200, 7_200, 7_200, 7_201, 7_201,
        ];
        assert_eq!(seconds, expected);
    }
}
