//! Request dedup cache: fingerprints of requests that were committed lately, so that one sent again
//! is not stored again.
//!
//! SDKs resend a whole batch as it was when a response was lost. One number per request, over all
//! that is stored of its events as sent, is kept for ten minutes at least, unless there are very
//! many: best effort. Requests that are alike in uuids only have two numbers and are both stored. A
//! duplicate that slips through has the same uuids and is collapsed by the table's engine.
//!
//! Two generations of plain sets instead of a cache that knows when each entry was used: that took
//! 7 % of a core at single events, and 200 bytes a request where this takes 20.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time for which a request is remembered at least, and half of the longest time.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Number of shards, a power of two: cores seldom want the same one at once, and none is large to
/// move when it grows.
const SHARDS: usize = 64;
/// Requests of a generation of one shard: as many as fill a table of 8 192 slots. At most twice as
/// many are remembered, in all shards 917 504 in 18 MB.
const GENERATION_MAX: usize = 7_168;

/// Fingerprints of requests whose rows are stored for good, shared by all cores.
#[derive(Clone, Debug)]
pub struct RequestDedupCache(Arc<[Mutex<Shard>]>);

#[derive(Debug)]
struct Shard {
    young: Fingerprints,
    old: Fingerprints,
    /// Time at which `young` was begun.
    since: Instant,
}

type Fingerprints = HashSet<u128, BuildHasherDefault<AsIs>>;

/// Hasher that takes fingerprints as they are, because they are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u128(&mut self, fingerprint: u128) {
        self.0 = fingerprint as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl RequestDedupCache {
    /// Returns an empty cache.
    pub fn new() -> Self {
        let shard = || {
            Mutex::new(Shard {
                young: Fingerprints::default(),
                old: Fingerprints::default(),
                since: Instant::now(),
            })
        };
        Self((0..SHARDS).map(|_| shard()).collect())
    }

    /// Returns true if a request with this fingerprint was committed lately.
    pub fn contains(&self, fingerprint: Option<u128>) -> bool {
        fingerprint.is_some_and(|fingerprint| {
            let shard = self.shard(fingerprint);
            shard.is_some_and(|mut shard| shard.contains(fingerprint, Instant::now()))
        })
    }

    /// Remembers a committed request.
    pub fn insert(&self, fingerprint: Option<u128>) {
        if let Some(fingerprint) = fingerprint
            && let Some(mut shard) = self.shard(fingerprint)
        {
            shard.insert(fingerprint, Instant::now());
        }
    }

    /// Shard of a fingerprint, chosen by bits that the tables do not look at.
    fn shard(&self, fingerprint: u128) -> Option<MutexGuard<'_, Shard>> {
        let shard = self.0.get((fingerprint >> 64) as usize % SHARDS)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shard {
    fn contains(&mut self, fingerprint: u128, now: Instant) -> bool {
        self.age(now);
        self.young.contains(&fingerprint) || self.old.contains(&fingerprint)
    }

    fn insert(&mut self, fingerprint: u128, now: Instant) {
        self.age(now);
        if self.young.len() == GENERATION_MAX {
            self.rotate(now);
        }
        self.young.insert(fingerprint);
    }

    /// Rotates generations by time, however seldom a request comes.
    fn age(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age >= 2 * REMEMBERED {
            self.rotate(now);
            self.rotate(now);
        } else if age >= REMEMBERED {
            self.rotate(self.since + REMEMBERED);
        }
    }

    /// Forgets the old generation, whose memory the next one has.
    fn rotate(&mut self, since: Instant) {
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        self.since = since;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shard(since: Instant) -> Shard {
        Shard {
            young: Fingerprints::default(),
            old: Fingerprints::default(),
            since,
        }
    }

    proptest! {
        #[test]
        fn a_request_is_known_for_ten_minutes_at_least_and_twenty_at_most(
            steps in prop::collection::vec((0_u64..400, 0_u128..40), 1..200),
        ) {
            let begin = Instant::now();
            let mut shard = shard(begin);
            let mut remembered = std::collections::HashMap::new();
            let mut now = begin;
            for (seconds, fingerprint) in steps {
                now += Duration::from_secs(seconds);
                let age = remembered.get(&fingerprint).map(|at| now - *at);
                let known = shard.contains(fingerprint, now);
                match age {
                    None => prop_assert!(!known),
                    Some(age) if age < REMEMBERED => prop_assert!(known),
                    Some(age) if age >= 2 * REMEMBERED => prop_assert!(!known),
                    Some(_) => {}
                }
                shard.insert(fingerprint, now);
                remembered.insert(fingerprint, now);
            }
        }
    }

    #[test]
    fn the_last_requests_are_known_however_many_there_were_and_memory_does_not_grow() {
        let now = Instant::now();
        let mut shard = shard(now);
        let count = 10 * GENERATION_MAX as u128;
        for fingerprint in 0..count {
            shard.insert(fingerprint, now);
        }
        let newest = count - GENERATION_MAX as u128..count;
        assert!(newest.into_iter().all(|it| shard.contains(it, now)));
        assert!(!shard.contains(0, now));
        assert_eq!(shard.young.capacity(), GENERATION_MAX);
        assert_eq!(shard.old.capacity(), GENERATION_MAX);
    }

    #[test]
    fn every_shard_is_used_and_clones_share_them() {
        let cache = RequestDedupCache::new();
        for high in 0..SHARDS as u128 {
            let fingerprint = Some(high << 64 | 7);
            assert!(!cache.contains(fingerprint));
            cache.clone().insert(fingerprint);
            assert!(cache.contains(fingerprint));
        }
        let used = |shard: &Mutex<Shard>| shard.lock().unwrap().young.len() == 1;
        assert!(cache.0.iter().all(used));
        assert!(!cache.contains(None));
    }
}
