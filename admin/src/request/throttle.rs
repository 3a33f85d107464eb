//! Rate limits of requests.
//!
//! Each key has two limits, one for every minute and one for every hour. All keys of a user
//! together have the same two, times a factor, and so have all members of an organization, for
//! requests that concern it. Wrong keys are limited by address, so that guessing is slow. State is
//! in memory: a restart resets it.

use super::window::{SlidingWindow, WindowLimit, WindowStatus};
use crate::services::ApiConfig;
use millrace_rows::network_of;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

/// Status of a rate limit as the `RateLimit-*` headers show it: of the window with the fewest
/// requests left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    /// Requests per window.
    pub(crate) limit: u32,
    /// Requests left now.
    pub(crate) remaining: u32,
    /// Seconds until all requests of `limit` are available again.
    pub(crate) reset_seconds: u64,
    /// Seconds until the next request passes; 0 if it passes now.
    pub(crate) retry_after_seconds: u64,
}

impl From<WindowStatus> for RateLimitStatus {
    fn from(left: WindowStatus) -> Self {
        Self {
            limit: left.limit,
            remaining: left.remaining,
            reset_seconds: whole_seconds(left.reset),
            retry_after_seconds: whole_seconds(left.wait),
        }
    }
}

/// Rate limits of one instance of the API.
pub(crate) struct Throttle {
    requests: SlidingWindow<Uuid>,
    /// Requests by user id.
    user_requests: SlidingWindow<i64>,
    /// Requests by the id of the organization that they concern.
    organization_requests: SlidingWindow<Uuid>,
    wrong_keys: SlidingWindow<IpAddr>,
}

impl Throttle {
    pub(crate) fn new(config: &ApiConfig) -> Self {
        let of_organization = config.requests_per_organization_factor;
        Self {
            requests: SlidingWindow::new(requests(config, 1)),
            user_requests: SlidingWindow::new(requests(config, config.requests_per_user_factor)),
            organization_requests: SlidingWindow::new(requests(config, of_organization)),
            wrong_keys: SlidingWindow::new([WindowLimit {
                times: config.wrong_keys_per_minute_max,
                window: MINUTE,
            }]),
        }
    }

    /// Counts a request of a user with a key. `None` if nothing is limited.
    ///
    /// # Errors
    ///
    /// The key has used up a window, or all keys of the user together have; the request is not
    /// counted.
    pub(crate) fn request(
        &self,
        user_id: i64,
        key_id: Uuid,
    ) -> Result<Option<RateLimitStatus>, RateLimitStatus> {
        let now = Instant::now();
        let of_key = self
            .requests
            .count(&key_id, now)
            .map_err(RateLimitStatus::from)?;
        let of_user = self.user_requests.count(&user_id, now).map_err(|refused| {
            self.requests.take_back(&key_id);
            RateLimitStatus::from(refused)
        })?;
        let nearest = of_key.into_iter().chain(of_user);
        Ok(nearest
            .min_by_key(|left| left.remaining)
            .map(RateLimitStatus::from))
    }

    /// Counts a request of a member that concerns an organization. `None` if nothing is limited.
    ///
    /// # Errors
    ///
    /// All members together have used up a window; the request is not counted, except for its key.
    pub(crate) fn organization_request(
        &self,
        organization_id: Uuid,
    ) -> Result<Option<RateLimitStatus>, RateLimitStatus> {
        let counted = self
            .organization_requests
            .count(&organization_id, Instant::now());
        match counted {
            Ok(left) => Ok(left.map(RateLimitStatus::from)),
            Err(refused) => Err(RateLimitStatus::from(refused)),
        }
    }

    /// Counts a wrong key from an address.
    ///
    /// # Errors
    ///
    /// The address has presented too many wrong keys.
    pub(crate) fn wrong_key(&self, from: IpAddr) -> Result<(), RateLimitStatus> {
        let counted = self.wrong_keys.count(&network_of(from), Instant::now());
        counted.map(drop).map_err(RateLimitStatus::from)
    }
}

/// Rate limits of a key, times a factor.
fn requests(config: &ApiConfig, factor: u32) -> [WindowLimit; 2] {
    let limit = |times: u32, window| WindowLimit {
        times: times.saturating_mul(factor),
        window,
    };
    [
        limit(config.requests_per_minute_max, MINUTE),
        limit(config.requests_per_hour_max, HOUR),
    ]
}

/// Seconds of a duration, rounded up.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn throttle(minute: u32, hour: u32) -> Throttle {
        Throttle::new(&ApiConfig {
            requests_per_minute_max: minute,
            requests_per_hour_max: hour,
            wrong_keys_per_minute_max: 2,
            ..ApiConfig::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_over_its_limit_waits_until_its_first_request_is_a_minute_old() {
        let throttle = throttle(4, 100);
        let (key, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        for remaining in [3, 2, 1, 0] {
            let rate_limit = throttle.request(1, key).unwrap().unwrap();
            assert_eq!((rate_limit.limit, rate_limit.remaining), (4, remaining));
            assert_eq!(rate_limit.reset_seconds, 60);
            advance(Duration::from_secs(10)).await;
        }
        let refused = throttle.request(1, key).unwrap_err();
        let expected = RateLimitStatus {
            limit: 4,
            remaining: 0,
            reset_seconds: 50,
            retry_after_seconds: 20,
        };
        assert_eq!(refused, expected);
        assert_eq!(throttle.request(1, other).unwrap().unwrap().remaining, 3);
        advance(Duration::from_secs(19)).await;
        assert_eq!(throttle.request(1, key).unwrap_err().retry_after_seconds, 1);
        advance(Duration::from_secs(1)).await;
        throttle.request(1, key).unwrap();
        throttle.request(1, key).unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_minute_and_hour_have_the_same_limit_as_later_ones() {
        let throttle = Throttle::new(&ApiConfig::default());
        let mut minutes = Vec::new();
        for _ in 0..120 {
            let mut passed = 0;
            for _ in 0..60 {
                passed += (0..20)
                    .filter(|_| throttle.request(1, Uuid::nil()).is_ok())
                    .count();
                advance(Duration::from_secs(1)).await;
            }
            minutes.push(passed);
        }
        for hour in minutes.chunks(60) {
            let (first, rest) = hour.split_at(10);
            assert_eq!(first, [480; 10]);
            assert!(rest.iter().all(|passed| *passed == 0), "{rest:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_keys_of_a_user_together_are_limited_to_a_factor_of_one_keys_limit() {
        let throttle = Throttle::new(&ApiConfig {
            requests_per_minute_max: 4,
            requests_per_hour_max: 6,
            requests_per_user_factor: 2,
            ..ApiConfig::default()
        });
        let key = Uuid::from_u128;
        for number in 0..8 {
            let left = throttle.request(1, key(number % 4)).unwrap().unwrap();
            // Each key has two of four left at the end; the user has none, which is nearer.
            let remaining = 7 - u32::try_from(number).unwrap();
            assert_eq!(
                left.remaining,
                remaining.min(3 - u32::try_from(number / 4).unwrap())
            );
        }
        for number in [0, 1, 9] {
            let refused = throttle.request(1, key(number)).unwrap_err();
            assert_eq!((refused.limit, refused.retry_after_seconds), (8, 60));
        }
        // Other users are not affected, and refused requests are not counted.
        throttle.request(2, key(10)).unwrap();
        advance(MINUTE).await;
        for _ in 0..4 {
            throttle.request(1, key(0)).unwrap();
        }
        assert_eq!(throttle.request(1, key(0)).unwrap_err().limit, 6);
        // Twelve in an hour.
        let refused = throttle.request(1, key(1)).unwrap_err();
        assert_eq!((refused.limit, refused.retry_after_seconds), (12, 3_540));
    }

    #[tokio::test(start_paused = true)]
    async fn all_members_of_an_organization_together_are_limited_to_a_factor_of_one_keys_limit() {
        let throttle = Throttle::new(&ApiConfig {
            requests_per_minute_max: 2,
            requests_per_hour_max: 3,
            requests_per_organization_factor: 2,
            ..ApiConfig::default()
        });
        let [organization, other] = [1, 2].map(Uuid::from_u128);
        for remaining in [3, 2, 1, 0] {
            let left = throttle.organization_request(organization).unwrap();
            assert_eq!(left.unwrap().remaining, remaining);
        }
        let refused = throttle.organization_request(organization).unwrap_err();
        assert_eq!((refused.limit, refused.retry_after_seconds), (4, 60));
        throttle.organization_request(other).unwrap();
        advance(MINUTE).await;
        for _ in 0..2 {
            throttle.organization_request(organization).unwrap();
        }
        // Six in an hour.
        let refused = throttle.organization_request(organization).unwrap_err();
        assert_eq!((refused.limit, refused.retry_after_seconds), (6, 3_540));
    }

    #[tokio::test(start_paused = true)]
    async fn refused_requests_of_a_key_do_not_count_for_the_users_other_keys() {
        let throttle = throttle(4, 100);
        for _ in 0..1_000 {
            let _ = throttle.request(1, Uuid::from_u128(1));
        }
        for number in 2..5 {
            for _ in 0..4 {
                throttle.request(1, Uuid::from_u128(number)).unwrap();
            }
        }
        assert_eq!(
            throttle.request(1, Uuid::from_u128(5)).unwrap_err().limit,
            16
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_with_fewer_requests_left_is_shown() {
        let throttle = throttle(4, 6);
        let key = Uuid::from_u128(1);
        for _ in 0..4 {
            assert_eq!(throttle.request(1, key).unwrap().unwrap().limit, 4);
        }
        advance(MINUTE).await;
        let rate_limit = throttle.request(1, key).unwrap().unwrap();
        assert_eq!((rate_limit.limit, rate_limit.remaining), (6, 1));
        throttle.request(1, key).unwrap();
        let refused = throttle.request(1, key).unwrap_err();
        assert_eq!((refused.limit, refused.retry_after_seconds), (6, 3_540));
    }

    #[test]
    fn zero_turns_a_limit_off() {
        let throttle = throttle(0, 0);
        for _ in 0..1_000 {
            assert_eq!(throttle.request(1, Uuid::from_u128(1)), Ok(None));
            assert_eq!(throttle.organization_request(Uuid::nil()), Ok(None));
        }
    }

    #[test]
    fn wrong_keys_count_per_network() {
        let throttle = throttle(0, 0);
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
