//! Limit of the older months that a project's events may be of at once.
//!
//! Every insert is of one month, and a part of a table; an insert of one row costs ClickHouse as
//! much as one of a hundred thousand. So a kilobyte of events, each of another month, kept half a
//! core of it busy, and everybody's watermark waited until all were stored. Here a project pays one
//! token for each older month that its events begin, from a bucket that fills slowly; a month that
//! was paid for lately is free, as its rows still gather for the same insert. A project that
//! imports in order, or sends what a device kept for a year, never notices. An import that is
//! sorted by user has events of all its months in each request: it is admitted when the bucket is
//! full, however many months there are, and the next one waits until they are paid off.

use millrace_rows::{Batch, Lane, Micros, Month, TeamId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Older months of one request that is no import, and of a project at once after a rest: ten years.
pub const MONTHS_MAX: usize = 120;
/// Time from one older month to the next that a project may begin.
pub const MONTH_EVERY: Duration = Duration::from_millis(125);
/// Time for which a month is free once it was paid for: rows of older months gather for as long.
const FREE: Duration = Duration::from_secs(5);
/// Time after its end from which a month is older, as the shipper has it.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// Number of projects above which idle ones are forgotten.
const PROJECTS_MANY: usize = 1_000;

/// Reason why a request is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonthLimitRefusal {
    /// The request is no import, and has more older months than are ever accepted at once.
    TooMany {
        /// Older months of the request.
        months: usize,
    },
    /// The project began too many months lately.
    Later {
        /// Whole seconds until there are enough tokens again.
        retry_after_seconds: u32,
    },
}

type MonthBuckets = Arc<Mutex<BTreeMap<TeamId, MonthBucket>>>;

/// Buckets of the projects. Only requests with older months lock them.
#[derive(Debug, Default)]
pub struct MonthLimiter(MonthBuckets);

/// Charge for the older months of a request. Dropped before it is kept, it is refunded: nothing was
/// stored.
#[derive(Debug)]
#[must_use = "a charge that is dropped is refunded"]
pub struct MonthCharge(Option<Charged>);

#[derive(Debug)]
struct Charged {
    buckets: MonthBuckets,
    team: TeamId,
    /// Months that were not free.
    months: Vec<Month>,
    at: Instant,
}

/// Bucket of one project.
#[derive(Debug)]
struct MonthBucket {
    /// Time at which the bucket is full again.
    full_at: Instant,
    /// Time at which each month was paid for.
    paid: BTreeMap<Month, Instant>,
}

// === impl MonthLimiter ===

impl MonthLimiter {
    /// Charges for the older months of a batch: for all or none.
    ///
    /// # Errors
    /// Reason why the batch may not be stored now.
    pub fn charge(
        &self,
        team: TeamId,
        batch: &Batch,
        received_at: Micros,
        now: Instant,
    ) -> Result<MonthCharge, MonthLimitRefusal> {
        let recent = Month::of(received_at.plus_micros(-RECENT_MICROS));
        let months = batch.groups.iter().map(|group| group.month);
        let older: BTreeSet<_> = months.filter(|month| *month < recent).collect();
        match older.len() {
            0 => Ok(MonthCharge(None)),
            months if months > MONTHS_MAX && batch.lane == Lane::Live => {
                Err(MonthLimitRefusal::TooMany { months })
            }
            _ => self.charge_for(team, &older, now),
        }
    }

    fn charge_for(
        &self,
        team: TeamId,
        older: &BTreeSet<Month>,
        now: Instant,
    ) -> Result<MonthCharge, MonthLimitRefusal> {
        let mut teams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if teams.len() >= PROJECTS_MANY && !teams.contains_key(&team) {
            teams.retain(|_, bucket| !bucket.is_idle(now));
        }
        let bucket = teams.entry(team).or_insert_with(|| MonthBucket::new(now));
        let months = bucket.charge(older, now)?;
        Ok(MonthCharge((!months.is_empty()).then(|| Charged {
            buckets: Arc::clone(&self.0),
            team,
            months,
            at: now,
        })))
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
        if let Some(charged) = self.0.take() {
            let mut teams = charged.buckets.lock();
            let teams = teams.as_mut().unwrap_or_else(|error| error.get_mut());
            if let Some(bucket) = teams.get_mut(&charged.team) {
                bucket.refund(&charged.months, charged.at);
            }
        }
    }
}

// === impl MonthBucket ===

impl MonthBucket {
    fn new(now: Instant) -> Self {
        Self {
            full_at: now,
            paid: BTreeMap::new(),
        }
    }

    /// Charges for the months that are not free, and returns them.
    fn charge(
        &mut self,
        older: &BTreeSet<Month>,
        now: Instant,
    ) -> Result<Vec<Month>, MonthLimitRefusal> {
        self.paid
            .retain(|_, paid_at| now.duration_since(*paid_at) < FREE);
        let begun: Vec<_> = older
            .iter()
            .filter(|month| !self.paid.contains_key(month))
            .copied()
            .collect();
        if begun.is_empty() {
            return Ok(begun);
        }
        let cost = cost(&begun);
        let most = MONTH_EVERY * MONTHS_MAX as u32;
        let full_at = self.full_at.max(now);
        // What exceeds a full bucket is paid off after the request.
        let missing = (full_at + cost.min(most))
            .duration_since(now)
            .saturating_sub(most);
        if !missing.is_zero() {
            let seconds = u32::try_from(missing.as_secs()).unwrap_or(u32::MAX);
            return Err(MonthLimitRefusal::Later {
                retry_after_seconds: seconds.saturating_add(1),
            });
        }
        self.full_at = full_at + cost;
        self.paid.extend(begun.iter().map(|month| (*month, now)));
        Ok(begun)
    }

    /// Refunds what was paid for these months at that time.
    fn refund(&mut self, months: &[Month], at: Instant) {
        self.full_at = self.full_at.checked_sub(cost(months)).unwrap_or(at);
        self.paid
            .retain(|month, paid_at| *paid_at != at || !months.contains(month));
    }

    fn is_idle(&self, now: Instant) -> bool {
        let is_free = self
            .paid
            .values()
            .any(|paid_at| now.duration_since(*paid_at) < FREE);
        self.full_at <= now && !is_free
    }
}

fn cost(months: &[Month]) -> Duration {
    MONTH_EVERY * u32::try_from(months.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::{Lane, RowGroup, Table};

    /// November 2026, as the time of receipt.
    const NOW: Micros = Micros(1_794_700_000_000_000);

    fn batch(months: impl IntoIterator<Item = u32>) -> Batch {
        let group = |month| RowGroup {
            table: Table::Events,
            month: Month(month),
            rows: 1,
            bytes: Vec::new(),
            keys: Vec::new(),
        };
        Batch {
            lane: Lane::Live,
            groups: months.into_iter().map(group).collect(),
        }
    }

    /// Batch of so many months from the first of `year` on.
    fn from(year: u32, count: u32) -> Batch {
        batch((0..count).map(|month| (year + month / 12) * 100 + month % 12 + 1))
    }

    #[test]
    fn ten_years_at_once_are_accepted_and_then_eight_months_a_second() {
        let (months, start) = (MonthLimiter::default(), Instant::now());
        let charge = |team, batch: &Batch, millis| {
            let now = start + Duration::from_millis(millis);
            let paid = months.charge(TeamId(team), batch, NOW, now);
            paid.map(MonthCharge::keep)
        };
        let later = |retry_after_seconds| {
            Err(MonthLimitRefusal::Later {
                retry_after_seconds,
            })
        };
        assert_eq!(
            charge(1, &from(1970, 121), 0),
            Err(MonthLimitRefusal::TooMany { months: 121 })
        );
        assert_eq!(charge(1, &from(1970, 120), 0), Ok(()));
        assert_eq!(
            charge(1, &from(1970, 120), 4_900),
            Ok(()),
            "they still gather"
        );
        assert_eq!(
            charge(1, &from(1990, 48), 5_000),
            later(2),
            "forty have come back"
        );
        assert_eq!(charge(1, &from(1990, 48), 5_999), later(1));
        assert_eq!(charge(1, &from(1990, 48), 6_000), Ok(()), "as it said");
        assert_eq!(
            charge(2, &from(1970, 120), 6_000),
            Ok(()),
            "others have buckets of their own"
        );
        assert_eq!(charge(1, &from(2010, 120), 6_000), later(16));
        assert_eq!(charge(1, &from(2010, 120), 21_000), Ok(()));
    }

    #[test]
    fn an_import_of_any_number_of_months_is_admitted_and_paid_off() {
        let (months, start) = (MonthLimiter::default(), Instant::now());
        let charge = |year, count, millis| {
            let mut batch = from(year, count);
            batch.lane = Lane::Historical;
            let now = start + Duration::from_millis(millis);
            months
                .charge(TeamId(1), &batch, NOW, now)
                .map(MonthCharge::keep)
        };
        let later = |retry_after_seconds| {
            Err(MonthLimitRefusal::Later {
                retry_after_seconds,
            })
        };
        assert_eq!(charge(1980, 300, 0), Ok(()));
        assert_eq!(charge(1980, 300, 4_900), Ok(()), "they still gather");
        assert_eq!(charge(2005, 1, 5_000), later(18), "37.5 s less 15");
        assert_eq!(charge(1980, 300, 5_000), later(33));
        assert_eq!(charge(1980, 300, 37_500), Ok(()), "all were paid off");
    }

    #[test]
    fn months_that_are_not_stored_are_refunded_unless_another_request_paid_for_them() {
        let (months, start) = (MonthLimiter::default(), Instant::now());
        let charge = |batch: &Batch, millis| {
            let now = start + Duration::from_millis(millis);
            months.charge(TeamId(1), batch, NOW, now)
        };
        for _ in 0..3 {
            drop(charge(&from(1970, 120), 0).unwrap());
        }
        let first = charge(&from(1970, 60), 0).unwrap();
        charge(&from(1970, 90), 1).unwrap().keep();
        drop(first);
        // The thirty that the other began are paid for, and ninety more can be.
        charge(&from(1970, 120), 2).unwrap().keep();
        assert!(charge(&from(2000, 1), 2).is_err(), "all is spent");
    }

    #[test]
    fn recent_months_cost_nothing() {
        let months = MonthLimiter::default();
        for _ in 0..1_000 {
            months
                .charge(
                    TeamId(1),
                    &batch([202_610, 202_611, 202_612, 210_001]),
                    NOW,
                    Instant::now(),
                )
                .unwrap()
                .keep();
        }
        assert!(months.0.lock().unwrap().is_empty());
    }

    #[test]
    fn idle_projects_are_forgotten() {
        let (months, start) = (MonthLimiter::default(), Instant::now());
        for team in 0..3_000 {
            let now = start + Duration::from_millis(10 * u64::try_from(team).unwrap());
            months
                .charge(TeamId(team), &batch([202_001]), NOW, now)
                .unwrap()
                .keep();
        }
        assert!(months.0.lock().unwrap().len() <= PROJECTS_MANY + 1);
    }
}
