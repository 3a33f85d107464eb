//! Sliding windows: limits on how often each key of a map did something in the last minute or hour.
//!
//! Each event's time is kept until the longest window is over, so that a limit holds in every
//! window, wherever it begins: a token bucket would allow twice as much in the first one. Each
//! event takes 16 bytes; refused ones take none.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Number of calls after which keys without recent events are removed.
const SWEEP_EVERY: u32 = 4_096;

/// Limit on the number of events in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowLimit {
    pub(crate) times: u32,
    pub(crate) window: Duration,
}

/// Status of a limit: events left, and time until there are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowStatus {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Time until all events of `limit` are available again.
    pub(crate) reset: Duration,
    /// Time until one event is available again; zero if one is.
    pub(crate) wait: Duration,
}

/// Times of the recent events of each key `K`, and the limits on them.
pub(crate) struct SlidingWindow<K> {
    /// Limits, none of them 0.
    limits: Vec<WindowLimit>,
    longest: Duration,
    times: Mutex<Times<K>>,
}

struct Times<K> {
    of: HashMap<K, VecDeque<Instant>>,
    looks: u32,
}

impl<K: Hash + Eq + Clone> SlidingWindow<K> {
    /// Creates windows with these limits; a limit of 0 is left out.
    pub(crate) fn new(limits: impl IntoIterator<Item = WindowLimit>) -> Self {
        let limits: Vec<_> = limits.into_iter().filter(|limit| limit.times > 0).collect();
        let windows = limits.iter().map(|limit| limit.window);
        Self {
            longest: windows.max().unwrap_or_default(),
            limits,
            times: Mutex::new(Times {
                of: HashMap::new(),
                looks: 0,
            }),
        }
    }

    /// Counts an event of a key, now, if every limit allows it. Returns the status of the limit
    /// with the fewest events left; `None` if there are no limits.
    ///
    /// # Errors
    ///
    /// A limit is used up and the event is not counted. Has the status of the limit with the
    /// longest wait.
    pub(crate) fn count(
        &self,
        key: &K,
        now: Instant,
    ) -> Result<Option<WindowStatus>, WindowStatus> {
        if self.limits.is_empty() {
            return Ok(None);
        }
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        times.sweep(self.longest, now);
        let done = times.of.entry(key.clone()).or_default();
        while done.front().is_some_and(|at| *at + self.longest <= now) {
            done.pop_front();
        }
        let left = |done: &VecDeque<Instant>| {
            let left = self.limits.iter().map(|limit| limit.status(done, now));
            left.collect::<Vec<_>>()
        };
        let used_up = left(done).into_iter().filter(|left| left.remaining == 0);
        if let Some(refusal) = used_up.max_by_key(|left| left.wait) {
            return Err(refusal);
        }
        done.push_back(now);
        let left = left(done).into_iter();
        Ok(left.min_by_key(|left| left.remaining))
    }

    /// Removes the last event of a key, as it was refused elsewhere.
    pub(crate) fn take_back(&self, key: &K) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = times.of.get_mut(key) {
            done.pop_back();
        }
    }
}

impl<K: Hash + Eq> Times<K> {
    /// Removes keys without recent events. Callers do this, so that memory is bounded without a
    /// task.
    fn sweep(&mut self, longest: Duration, now: Instant) {
        self.looks += 1;
        if self.looks == SWEEP_EVERY {
            self.looks = 0;
            let is_recent = |at: &Instant| *at + longest > now;
            self.of.retain(|_, done| done.back().is_some_and(is_recent));
        }
    }
}

impl WindowLimit {
    fn status(self, done: &VecDeque<Instant>, now: Instant) -> WindowStatus {
        let is_over = |at: &Instant| *at + self.window <= now;
        let counted = done.len() - done.partition_point(is_over);
        let times = self.times as usize;
        let until_over = |at: Option<&Instant>| {
            at.map_or(Duration::ZERO, |at| (*at + self.window).duration_since(now))
        };
        // Once this event leaves the window, another one is available.
        let holds = counted >= times;
        let holding = holds.then(|| done.get(done.len() - times)).flatten();
        let newest = (counted > 0).then(|| done.back()).flatten();
        WindowStatus {
            limit: self.times,
            remaining: u32::try_from(times.saturating_sub(counted)).unwrap_or(u32::MAX),
            reset: until_over(newest),
            wait: until_over(holding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn no_window_exceeds_its_limit_wherever_it_begins() {
        let limits = [(5, 10), (12, 60)].map(|(times, seconds)| WindowLimit {
            times,
            window: Duration::from_secs(seconds),
        });
        let recent = SlidingWindow::new(limits);
        let start = Instant::now();
        let mut counted = Vec::new();
        // Tries at every step of an odd length.
        for step in 0..2_000 {
            let now = start + Duration::from_millis(137) * step;
            if recent.count(&(), now).is_ok() {
                counted.push(now);
            }
        }
        for WindowLimit { times, window } in limits {
            for begin in &counted {
                let within = |at: &&Instant| **at >= *begin && **at < *begin + window;
                let count = counted.iter().filter(within).count();
                assert!(count <= times as usize, "{count} in {window:?}");
            }
        }
        // 274 seconds: four whole minutes and a begun one.
        assert_eq!(counted.len(), 60);
    }

    #[test]
    fn keys_without_recent_events_are_removed() {
        let recent = SlidingWindow::new([WindowLimit {
            times: 3,
            window: MINUTE,
        }]);
        let start = Instant::now();
        for key in 0..100 {
            recent.count(&key, start).unwrap();
        }
        for _ in 0..SWEEP_EVERY {
            let _ = recent.count(&0, start + MINUTE);
        }
        assert_eq!(recent.times.lock().unwrap().of.len(), 1);
    }
}
