//! How often each of many did something lately.
//!
//! Each time is kept until the longest window is over, so that a limit holds in every window,
//! wherever it begins: a bucket that refills would let twice as much through in the first one.
//! 16 bytes for each time; who may do nothing more adds none.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// After how many looks those who did nothing lately are forgotten.
const SWEEP_EVERY: u32 = 4_096;

/// So many times in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) times: u32,
    pub(crate) window: Duration,
}

/// What is left of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) limit: u32,
    pub(crate) remaining: u32,
    /// Until all of `limit` are there again.
    pub(crate) reset: Duration,
    /// Until there is one again; nothing if there is one.
    pub(crate) wait: Duration,
}

/// The times of each `K`, and what they are held to.
pub(crate) struct Recent<K> {
    /// None of them 0.
    limits: Vec<Limit>,
    longest: Duration,
    times: Mutex<Times<K>>,
}

struct Times<K> {
    of: HashMap<K, VecDeque<Instant>>,
    looks: u32,
}

impl<K: Hash + Eq + Clone> Recent<K> {
    /// Limits of 0 are none.
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
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

    /// Counts one more time, now, if every limit allows it. What is left of the limit that is
    /// nearest; `None` if there are no limits.
    ///
    /// # Errors
    ///
    /// A limit is used up; nothing is counted. What is left of the one that stays so longest.
    pub(crate) fn count(&self, key: &K, now: Instant) -> Result<Option<Left>, Left> {
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
            let left = self.limits.iter().map(|limit| limit.left(done, now));
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

    /// Takes the last time of a key back, as what was counted did not happen.
    pub(crate) fn take_back(&self, key: &K) {
        let mut times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(done) = times.of.get_mut(key) {
            done.pop_back();
        }
    }
}

impl<K: Hash + Eq> Times<K> {
    /// Sorted out by those who come, so that memory is bounded without a task of its own.
    fn sweep(&mut self, longest: Duration, now: Instant) {
        self.looks += 1;
        if self.looks == SWEEP_EVERY {
            self.looks = 0;
            let is_recent = |at: &Instant| *at + longest > now;
            self.of.retain(|_, done| done.back().is_some_and(is_recent));
        }
    }
}

impl Limit {
    fn left(self, done: &VecDeque<Instant>, now: Instant) -> Left {
        let is_over = |at: &Instant| *at + self.window <= now;
        let counted = done.len() - done.partition_point(is_over);
        let times = self.times as usize;
        let until_over = |at: Option<&Instant>| {
            at.map_or(Duration::ZERO, |at| (*at + self.window).duration_since(now))
        };
        // Once this one is over, there is one again.
        let holds = counted >= times;
        let holding = holds.then(|| done.get(done.len() - times)).flatten();
        let newest = (counted > 0).then(|| done.back()).flatten();
        Left {
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
    fn no_window_has_more_than_its_limit_wherever_it_begins() {
        let limits = [(5, 10), (12, 60)].map(|(times, seconds)| Limit {
            times,
            window: Duration::from_secs(seconds),
        });
        let recent = Recent::new(limits);
        let start = Instant::now();
        let mut counted = Vec::new();
        // Somebody who tries whenever a step of an odd length is over.
        for step in 0..2_000 {
            let now = start + Duration::from_millis(137) * step;
            if recent.count(&(), now).is_ok() {
                counted.push(now);
            }
        }
        for Limit { times, window } in limits {
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
    fn who_did_nothing_lately_is_forgotten() {
        let recent = Recent::new([Limit {
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
