//! How often one may ask.
//!
//! Two buckets per key, one that refills within a minute and one within an hour; and one per
//! address for wrong keys, so that guessing is slow. State is in memory: a restart forgives.

use crate::services::ApiConfig;
use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// After how many looks the buckets that are full again are forgotten.
const SWEEP_EVERY: u32 = 4_096;

/// What the `RateLimit-*` headers say: the window that is nearer to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Requests per window.
    pub(crate) limit: u32,
    /// Requests left now.
    pub(crate) remaining: u32,
    /// Seconds until all of `limit` are there again.
    pub(crate) reset_seconds: u64,
    /// Seconds until the next request passes; 0 if it passes now.
    pub(crate) retry_after_seconds: u64,
}

/// The limits of one instance of the API.
pub(crate) struct Throttle<C: Clock + Clone = DefaultClock> {
    minute: Option<Bucket<Uuid, C>>,
    hour: Option<Bucket<Uuid, C>>,
    wrong_keys: Option<Bucket<IpAddr, C>>,
}

impl Throttle {
    pub(crate) fn new(config: &ApiConfig) -> Self {
        Self::with_clock(config, &DefaultClock::default())
    }
}

impl<C: Clock + Clone> Throttle<C> {
    fn with_clock(config: &ApiConfig, clock: &C) -> Self {
        Self {
            minute: Bucket::new(config.requests_per_minute_max, MINUTE, clock),
            hour: Bucket::new(config.requests_per_hour_max, HOUR, clock),
            wrong_keys: Bucket::new(config.wrong_keys_per_minute_max, MINUTE, clock),
        }
    }

    /// Counts a request of a key. `None` if nothing is limited.
    ///
    /// # Errors
    ///
    /// The key has used up a window; the request is not counted in it.
    pub(crate) fn request(&self, key_id: Uuid) -> Result<Option<Allowance>, Allowance> {
        let minute = self.minute.as_ref().map(|bucket| bucket.take(&key_id));
        let minute = minute.transpose()?;
        let hour = self.hour.as_ref().map(|bucket| bucket.take(&key_id));
        let hour = hour.transpose()?;
        Ok([minute, hour]
            .into_iter()
            .flatten()
            .min_by_key(|allowance| allowance.remaining))
    }

    /// Counts a wrong key from an address.
    ///
    /// # Errors
    ///
    /// There were too many.
    pub(crate) fn wrong_key(&self, from: IpAddr) -> Result<(), Allowance> {
        match &self.wrong_keys {
            Some(bucket) => bucket.take(&network_of(from)).map(drop),
            None => Ok(()),
        }
    }
}

/// Whoever has an IPv6 address usually has all of its /64.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

type Limiter<K, C> = RateLimiter<K, DefaultKeyedStateStore<K>, C, StateInformationMiddleware>;

/// A number of requests per window, for each `K`.
struct Bucket<K: Hash + Eq + Clone, C: Clock + Clone> {
    limiter: Limiter<K, C>,
    limit: NonZeroU32,
    window: Duration,
    looks: AtomicU32,
}

impl<K: Hash + Eq + Clone, C: Clock + Clone> Bucket<K, C> {
    fn new(limit: u32, window: Duration, clock: &C) -> Option<Self> {
        let limit = NonZeroU32::new(limit)?;
        let quota = Quota::with_period(window / limit.get())?.allow_burst(limit);
        let state = DefaultKeyedStateStore::default();
        Some(Self {
            limiter: RateLimiter::new(quota, state, clock.clone()),
            limit,
            window,
            looks: AtomicU32::new(0),
        })
    }

    fn take(&self, key: &K) -> Result<Allowance, Allowance> {
        // Sorted out by those who ask, so that memory is bounded without a task of its own.
        if self.looks.fetch_add(1, Ordering::Relaxed) % SWEEP_EVERY == SWEEP_EVERY - 1 {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key(key) {
            Ok(snapshot) => Ok(self.allowance(snapshot.remaining_burst_capacity(), Duration::ZERO)),
            Err(refusal) => {
                let wait = refusal.wait_time_from(self.limiter.clock().now());
                Err(self.allowance(0, wait))
            }
        }
    }

    fn allowance(&self, remaining: u32, wait: Duration) -> Allowance {
        let limit = self.limit.get();
        let used = limit.saturating_sub(remaining);
        let refill = self.window.as_secs_f64() * f64::from(used) / f64::from(limit);
        Allowance {
            limit,
            remaining,
            reset_seconds: whole_seconds(Duration::from_secs_f64(refill)),
            retry_after_seconds: whole_seconds(wait),
        }
    }
}

/// Rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;

    fn throttle(minute: u32, hour: u32) -> (Throttle<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let config = ApiConfig {
            requests_per_minute_max: minute,
            requests_per_hour_max: hour,
            wrong_keys_per_minute_max: 2,
            ..ApiConfig::default()
        };
        (Throttle::with_clock(&config, &clock), clock)
    }

    #[test]
    fn a_key_that_used_up_its_minute_waits_for_a_place() {
        let (throttle, clock) = throttle(4, 100);
        let (key, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        for remaining in [3, 2, 1, 0] {
            let allowance = throttle.request(key).unwrap().unwrap();
            assert_eq!((allowance.limit, allowance.remaining), (4, remaining));
        }
        let refused = throttle.request(key).unwrap_err();
        let expected = Allowance {
            limit: 4,
            remaining: 0,
            reset_seconds: 60,
            retry_after_seconds: 15,
        };
        assert_eq!(refused, expected);
        assert_eq!(throttle.request(other).unwrap().unwrap().remaining, 3);
        clock.advance(Duration::from_secs(15));
        throttle.request(key).unwrap();
        throttle.request(key).unwrap_err();
    }

    #[test]
    fn the_nearer_window_is_shown() {
        let (throttle, clock) = throttle(4, 6);
        let key = Uuid::from_u128(1);
        for _ in 0..4 {
            assert_eq!(throttle.request(key).unwrap().unwrap().limit, 4);
        }
        clock.advance(MINUTE);
        let allowance = throttle.request(key).unwrap().unwrap();
        assert_eq!((allowance.limit, allowance.remaining), (6, 1));
        throttle.request(key).unwrap();
        let refused = throttle.request(key).unwrap_err();
        assert_eq!((refused.limit, refused.retry_after_seconds), (6, 540));
    }

    #[test]
    fn nought_turns_a_limit_off() {
        let (throttle, _) = throttle(0, 0);
        for _ in 0..1_000 {
            assert_eq!(throttle.request(Uuid::from_u128(1)), Ok(None));
        }
    }

    #[test]
    fn wrong_keys_count_per_network() {
        let (throttle, _) = throttle(0, 0);
        let table = [
            ("10.0.0.1", true),
            ("10.0.0.1", true),
            ("::ffff:10.0.0.1", false),
            ("10.0.0.2", true),
            ("2001:db8::1", true),
            ("2001:db8::2", true),
            ("2001:db8::3", false),
            ("2001:db8:0:1::3", true),
        ];
        for (address, passes) in table {
            let outcome = throttle.wrong_key(address.parse().unwrap());
            assert_eq!(outcome.is_ok(), passes, "{address}");
        }
    }
}
