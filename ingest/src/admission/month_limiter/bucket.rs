//! Tokens for older months, and the months that were paid for.

use millrace_rows::{Month, ProjectId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Older months of one request that is no import, and of an organization at once after a rest: ten
/// years.
pub const MONTHS_MAX: usize = 120;
/// Time for which a month is free once it was paid for: rows of older months gather for as long at
/// the most.
const FREE: Duration = Duration::from_secs(5);

/// Owner of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonthOwner {
    /// All projects of an organization.
    Organization(Uuid),
    /// A project whose organization is not known.
    Project(ProjectId),
}

/// Tokens that come back one by one.
#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Time from one token to the next.
    every: Duration,
    /// Time that an empty bucket takes to fill.
    whole: Duration,
    /// Time at which the bucket is full again.
    full_at: Instant,
}

/// Time at which each month was paid for.
#[derive(Debug, Default)]
pub(super) struct PaidMonths(BTreeMap<Month, Instant>);

// === impl TokenBucket ===

impl TokenBucket {
    /// Full bucket of so many tokens.
    pub(super) fn full(tokens: usize, every: Duration, now: Instant) -> Self {
        Self {
            every,
            whole: cost(tokens, every),
            full_at: now,
        }
    }

    /// Time until there are so many tokens; `None` if there are. A full bucket has enough for any
    /// number: the rest is paid off after the request.
    pub(super) fn wait(&self, tokens: usize, now: Instant) -> Option<Duration> {
        let needed = cost(tokens, self.every).min(self.whole);
        let missing = (self.full_at.max(now) + needed)
            .duration_since(now)
            .saturating_sub(self.whole);
        (!missing.is_zero()).then_some(missing)
    }

    /// Tokens that are left now.
    pub(super) fn left(&self, now: Instant) -> usize {
        let debt = self.full_at.saturating_duration_since(now);
        let left = self.whole.saturating_sub(debt).as_micros() / self.every.as_micros().max(1);
        usize::try_from(left).unwrap_or(usize::MAX)
    }

    /// Takes tokens, also those that are still to come.
    pub(super) fn take(&mut self, tokens: usize, now: Instant) {
        self.full_at = self.full_at.max(now) + cost(tokens, self.every);
    }

    /// Gives tokens back that were taken at that time.
    pub(super) fn give_back(&mut self, tokens: usize, at: Instant) {
        let given = self.full_at.checked_sub(cost(tokens, self.every));
        self.full_at = given.unwrap_or(at);
    }

    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

fn cost(tokens: usize, every: Duration) -> Duration {
    every * u32::try_from(tokens).unwrap_or(u32::MAX)
}

// === impl PaidMonths ===

impl PaidMonths {
    /// Forgets months that are not free any more.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.0
            .retain(|_, paid_at| now.duration_since(*paid_at) < FREE);
    }

    /// Months that were not paid for.
    pub(super) fn missing(&self, months: impl Iterator<Item = Month>) -> Vec<Month> {
        months.filter(|month| !self.0.contains_key(month)).collect()
    }

    pub(super) fn pay(&mut self, months: &[Month], now: Instant) {
        self.0.extend(months.iter().map(|month| (*month, now)));
    }

    /// Takes back what was paid for these months at that time.
    pub(super) fn refund(&mut self, months: &[Month], at: Instant) {
        self.0
            .retain(|month, paid_at| *paid_at != at || !months.contains(month));
    }

    pub(super) fn is_any_free(&self, now: Instant) -> bool {
        let mut paid = self.0.values();
        paid.any(|paid_at| now.duration_since(*paid_at) < FREE)
    }
}
