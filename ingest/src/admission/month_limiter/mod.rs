//! Limit of the older months that events may be of at once, by organization and for the server.
//!
//! Every insert is of one month, and a part of a table; an insert of one row costs ClickHouse as
//! much as one of a hundred thousand. So a kilobyte of events, each of another month, kept half a
//! core of it busy, and everybody's watermark waited until all were stored. Here an organization
//! pays one token for each older month that events of its projects begin, from a bucket that fills
//! slowly; a month that it paid for lately is free, as its rows still gather for the same insert.
//! An organization that imports in order, or sends what a device kept for a year, never notices. An
//! import that is sorted by user has events of all its months in each request: it is admitted when
//! the bucket is full, however many months there are, and the next one waits until they are paid
//! off.
//!
//! Months that nobody paid for lately are inserts that would not be made otherwise. They are paid
//! for from the server's bucket as well, so that many organizations together do no more harm than
//! two. Each of them gets an equal share of it, and so does one that comes later.
//!
//! | Module | Holds |
//! |---|---|
//! | `bucket` | [`MonthOwner`]s, tokens that come back with time, months that were paid for |
//! | `server_bucket` | the server's bucket and the shares of organizations in it |

mod bucket;
mod server_bucket;
#[cfg(test)]
mod tests;

pub use bucket::{MONTHS_MAX, MonthOwner};
use bucket::{PaidMonths, TokenBucket};
use millrace_rows::{Batch, Lane, Micros, Month};
use server_bucket::{ServerBucket, ServerCharge};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time from one older month to the next that an organization may begin.
pub const MONTH_EVERY: Duration = Duration::from_millis(125);
/// Time after its end from which a month is older, as the shipper has it.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// Number of owners above which idle ones are forgotten.
const OWNERS_MANY: usize = 1_000;

/// Reason why a request is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonthLimitRefusal {
    /// The request is no import, and has more older months than are ever accepted at once.
    TooMany {
        /// Older months of the request.
        months: usize,
    },
    /// The organization, or all together, began too many months lately.
    Later {
        /// Whole seconds until there are enough tokens again.
        retry_after_seconds: u32,
    },
}

/// Buckets of the owners. Only requests with older months lock them.
#[derive(Debug, Default)]
pub struct MonthLimiter(Arc<Mutex<MonthBuckets>>);

/// Charge for the older months of a request. Dropped before it is kept, it is refunded: nothing was
/// stored.
#[derive(Debug)]
#[must_use = "a charge that is dropped is refunded"]
pub struct MonthCharge(Option<(Arc<Mutex<MonthBuckets>>, Charged)>);

/// Months that a request paid for.
#[derive(Debug)]
struct Charged {
    owner: MonthOwner,
    /// Months that were not free for the owner.
    months: Vec<Month>,
    /// Part of them that was not free for the server.
    server: ServerCharge,
    at: Instant,
}

#[derive(Debug, Default)]
struct MonthBuckets {
    owners: BTreeMap<MonthOwner, OwnerBucket>,
    server: ServerBucket,
}

/// Bucket of one owner.
#[derive(Debug)]
struct OwnerBucket {
    tokens: TokenBucket,
    paid: PaidMonths,
}

// === impl MonthLimiter ===

impl MonthLimiter {
    /// Charges for the older months of a batch: for all or none. The owner is asked for only if
    /// there are any.
    ///
    /// # Errors
    /// Reason why the batch may not be stored now.
    pub fn charge(
        &self,
        owner: impl FnOnce() -> MonthOwner,
        batch: &Batch,
        received_at: Micros,
        now: Instant,
    ) -> Result<MonthCharge, MonthLimitRefusal> {
        let recent = Month::of(received_at.plus_micros(-RECENT_MICROS));
        let months = batch.groups.iter().map(|group| group.month);
        let older: BTreeSet<_> = months.filter(|month| *month < recent).collect();
        match older.len() {
            0 => return Ok(MonthCharge(None)),
            months if months > MONTHS_MAX && batch.lane == Lane::Live => {
                return Err(MonthLimitRefusal::TooMany { months });
            }
            _ => {}
        }
        let owner = owner();
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let charged = buckets.charge(owner, &older, batch.lane, now)?;
        Ok(MonthCharge(
            charged.map(|charged| (Arc::clone(&self.0), charged)),
        ))
    }
}

// === impl MonthBuckets ===

impl MonthBuckets {
    /// Charges for the months that are not free; `None` if all are.
    fn charge(
        &mut self,
        owner: MonthOwner,
        older: &BTreeSet<Month>,
        lane: Lane,
        now: Instant,
    ) -> Result<Option<Charged>, MonthLimitRefusal> {
        if self.owners.len() >= OWNERS_MANY && !self.owners.contains_key(&owner) {
            self.owners.retain(|_, bucket| !bucket.is_idle(now));
        }
        let bucket = self
            .owners
            .entry(owner)
            .or_insert_with(|| OwnerBucket::new(now));
        bucket.paid.forget_old(now);
        let months = bucket.paid.missing(older.iter().copied());
        if months.is_empty() {
            return Ok(None);
        }
        let own_wait = bucket.tokens.wait(months.len(), now);
        let server = self.server.charge(owner, &months, lane, now);
        let wait = own_wait.max(server.as_ref().err().copied());
        let server = match (server, wait) {
            (Ok(server), None) => server,
            (server, wait) => {
                if let Ok(charged) = server {
                    self.server.refund(charged, now);
                }
                let seconds = wait.unwrap_or_default().as_secs();
                let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                return Err(MonthLimitRefusal::Later {
                    retry_after_seconds: seconds.saturating_add(1),
                });
            }
        };
        bucket.tokens.take(months.len(), now);
        bucket.paid.pay(&months, now);
        Ok(Some(Charged {
            owner,
            months,
            server,
            at: now,
        }))
    }

    fn refund(&mut self, charged: Charged) {
        let at = charged.at;
        if let Some(bucket) = self.owners.get_mut(&charged.owner) {
            bucket.tokens.give_back(charged.months.len(), at);
            bucket.paid.refund(&charged.months, at);
        }
        self.server.refund(charged.server, at);
    }
}

// === impl OwnerBucket ===

impl OwnerBucket {
    fn new(now: Instant) -> Self {
        Self {
            tokens: TokenBucket::full(MONTHS_MAX, MONTH_EVERY, now),
            paid: PaidMonths::default(),
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.tokens.is_full(now) && !self.paid.is_any_free(now)
    }
}

// === impl MonthCharge ===

impl MonthCharge {
    /// Keeps the charge, as the rows are stored.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for MonthCharge {
    fn drop(&mut self) {
        if let Some((buckets, charged)) = self.0.take() {
            let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
            buckets.refund(charged);
        }
    }
}
