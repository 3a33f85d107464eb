//! How many older months a project's events may be of at once.
//!
//! Every insert is of one month, and a part of a table; what an insert costs ClickHouse, one row costs as well as a hundred
//! thousand. So a kilobyte of events, each of another month, kept half a core of it busy, and everybody's watermark waited
//! until all were stored. Here a project pays one for each older month that its events begin, out of a purse that fills
//! slowly; a month that it paid for lately is free, as its rows still gather for the same insert. Who imports in order, or
//! sends what a device kept for a year, never notices. An import that is sorted by user has events of all its months in each
//! request: it is let in when the purse is full, however many there are, and then waits until they are paid off.

use millrace_rows::{Batch, Lane, Micros, Month, TeamId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Older months of one request that is no import, and of a project at once after a rest: ten years.
pub const MONTHS_MAX: usize = 120;
/// From one older month to the next that a project may begin.
pub const MONTH_EVERY: Duration = Duration::from_millis(125);
/// How long a month is free once it was paid for: rows of older months gather for as long.
const FREE: Duration = Duration::from_secs(5);
/// Months are older when they have been over for so long, as the shipper has it.
const RECENT_MICROS: i64 = 30 * 86_400 * 1_000_000;
/// Projects that are remembered before those are forgotten that have rested.
const TEAMS_MANY: usize = 1_000;

/// Why a request is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonthsRefusal {
    /// It is no import, and of more older months than are ever taken at once.
    TooMany {
        /// How many.
        months: usize,
    },
    /// The project began too many lately.
    Later {
        /// Until there are enough again, in whole seconds.
        retry_after_seconds: u32,
    },
}

type Purses = Arc<Mutex<BTreeMap<TeamId, Purse>>>;

/// The purses of the projects. Only requests with older months look at it.
#[derive(Debug, Default)]
pub struct Months(Purses);

/// Months of a request that were paid for. Dropped before they are kept, they go back: nothing was stored.
#[derive(Debug)]
#[must_use = "what is dropped is paid back"]
pub struct Paid(Option<Payment>);

#[derive(Debug)]
struct Payment {
    purses: Purses,
    team: TeamId,
    /// Those that were not free.
    months: Vec<Month>,
    at: Instant,
}

/// One project's.
#[derive(Debug)]
struct Purse {
    /// When it is full again.
    full_at: Instant,
    /// When each was paid for.
    paid: BTreeMap<Month, Instant>,
}

// === impl Months ===

impl Months {
    /// Pays for the older months of a batch: for all or none.
    ///
    /// # Errors
    /// Why it may not be stored now.
    pub fn pay(
        &self,
        team: TeamId,
        batch: &Batch,
        received_at: Micros,
        now: Instant,
    ) -> Result<Paid, MonthsRefusal> {
        let recent = Month::of(received_at.plus_micros(-RECENT_MICROS));
        let months = batch.groups.iter().map(|group| group.month);
        let older: BTreeSet<_> = months.filter(|month| *month < recent).collect();
        match older.len() {
            0 => Ok(Paid(None)),
            months if months > MONTHS_MAX && batch.lane == Lane::Live => {
                Err(MonthsRefusal::TooMany { months })
            }
            _ => self.pay_for(team, &older, now),
        }
    }

    fn pay_for(
        &self,
        team: TeamId,
        older: &BTreeSet<Month>,
        now: Instant,
    ) -> Result<Paid, MonthsRefusal> {
        let mut teams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if teams.len() >= TEAMS_MANY && !teams.contains_key(&team) {
            teams.retain(|_, purse| !purse.has_rested(now));
        }
        let purse = teams.entry(team).or_insert_with(|| Purse::new(now));
        let months = purse.pay(older, now)?;
        Ok(Paid((!months.is_empty()).then(|| Payment {
            purses: Arc::clone(&self.0),
            team,
            months,
            at: now,
        })))
    }
}

// === impl Paid ===

impl Paid {
    /// Leaves it paid, as the rows are stored.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if let Some(payment) = self.0.take() {
            let mut teams = payment.purses.lock();
            let teams = teams.as_mut().unwrap_or_else(|error| error.get_mut());
            if let Some(purse) = teams.get_mut(&payment.team) {
                purse.take_back(&payment.months, payment.at);
            }
        }
    }
}

// === impl Purse ===

impl Purse {
    fn new(now: Instant) -> Self {
        Self {
            full_at: now,
            paid: BTreeMap::new(),
        }
    }

    /// Pays for those that are not free, and gives them.
    fn pay(&mut self, older: &BTreeSet<Month>, now: Instant) -> Result<Vec<Month>, MonthsRefusal> {
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
        let price = price(&begun);
        let most = MONTH_EVERY * MONTHS_MAX as u32;
        let full_at = self.full_at.max(now);
        // More than a purse holds is paid off after it.
        let missing = (full_at + price.min(most))
            .duration_since(now)
            .saturating_sub(most);
        if !missing.is_zero() {
            let seconds = u32::try_from(missing.as_secs()).unwrap_or(u32::MAX);
            return Err(MonthsRefusal::Later {
                retry_after_seconds: seconds.saturating_add(1),
            });
        }
        self.full_at = full_at + price;
        self.paid.extend(begun.iter().map(|month| (*month, now)));
        Ok(begun)
    }

    /// Takes back what was paid for these at that time.
    fn take_back(&mut self, months: &[Month], at: Instant) {
        self.full_at = self.full_at.checked_sub(price(months)).unwrap_or(at);
        self.paid
            .retain(|month, paid_at| *paid_at != at || !months.contains(month));
    }

    fn has_rested(&self, now: Instant) -> bool {
        let is_free = self
            .paid
            .values()
            .any(|paid_at| now.duration_since(*paid_at) < FREE);
        self.full_at <= now && !is_free
    }
}

fn price(months: &[Month]) -> Duration {
    MONTH_EVERY * u32::try_from(months.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::{Lane, RowGroup, Table};

    /// November 2026.
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

    /// So many months from the first of `year` on.
    fn from(year: u32, count: u32) -> Batch {
        batch((0..count).map(|month| (year + month / 12) * 100 + month % 12 + 1))
    }

    #[test]
    fn ten_years_at_once_are_taken_and_then_eight_months_a_second() {
        let (months, start) = (Months::default(), Instant::now());
        let pay = |team, batch: &Batch, millis| {
            let now = start + Duration::from_millis(millis);
            let paid = months.pay(TeamId(team), batch, NOW, now);
            paid.map(Paid::keep)
        };
        let later = |retry_after_seconds| {
            Err(MonthsRefusal::Later {
                retry_after_seconds,
            })
        };
        assert_eq!(
            pay(1, &from(1970, 121), 0),
            Err(MonthsRefusal::TooMany { months: 121 })
        );
        assert_eq!(pay(1, &from(1970, 120), 0), Ok(()));
        assert_eq!(pay(1, &from(1970, 120), 4_900), Ok(()), "they still gather");
        assert_eq!(
            pay(1, &from(1990, 48), 5_000),
            later(2),
            "forty have come back"
        );
        assert_eq!(pay(1, &from(1990, 48), 5_999), later(1));
        assert_eq!(pay(1, &from(1990, 48), 6_000), Ok(()), "as it said");
        assert_eq!(
            pay(2, &from(1970, 120), 6_000),
            Ok(()),
            "others have purses of their own"
        );
        assert_eq!(pay(1, &from(2010, 120), 6_000), later(16));
        assert_eq!(pay(1, &from(2010, 120), 21_000), Ok(()));
    }

    #[test]
    fn an_import_of_any_number_of_months_is_let_in_and_paid_off() {
        let (months, start) = (Months::default(), Instant::now());
        let pay = |year, count, millis| {
            let mut batch = from(year, count);
            batch.lane = Lane::Historical;
            let now = start + Duration::from_millis(millis);
            months.pay(TeamId(1), &batch, NOW, now).map(Paid::keep)
        };
        let later = |retry_after_seconds| {
            Err(MonthsRefusal::Later {
                retry_after_seconds,
            })
        };
        assert_eq!(pay(1980, 300, 0), Ok(()));
        assert_eq!(pay(1980, 300, 4_900), Ok(()), "they still gather");
        assert_eq!(pay(2005, 1, 5_000), later(18), "37.5 s less 15");
        assert_eq!(pay(1980, 300, 5_000), later(33));
        assert_eq!(pay(1980, 300, 37_500), Ok(()), "all were paid off");
    }

    #[test]
    fn what_is_not_stored_is_paid_back_but_for_what_others_paid() {
        let (months, start) = (Months::default(), Instant::now());
        let pay = |batch: &Batch, millis| {
            let now = start + Duration::from_millis(millis);
            months.pay(TeamId(1), batch, NOW, now)
        };
        for _ in 0..3 {
            drop(pay(&from(1970, 120), 0).unwrap());
        }
        let first = pay(&from(1970, 60), 0).unwrap();
        pay(&from(1970, 90), 1).unwrap().keep();
        drop(first);
        // The thirty that the other began are paid for, and ninety more can be.
        pay(&from(1970, 120), 2).unwrap().keep();
        assert!(pay(&from(2000, 1), 2).is_err(), "all is spent");
    }

    #[test]
    fn recent_months_cost_nothing() {
        let months = Months::default();
        for _ in 0..1_000 {
            months
                .pay(
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
    fn projects_that_have_rested_are_forgotten() {
        let (months, start) = (Months::default(), Instant::now());
        for team in 0..3_000 {
            let now = start + Duration::from_millis(10 * u64::try_from(team).unwrap());
            months
                .pay(TeamId(team), &batch([202_001]), NOW, now)
                .unwrap()
                .keep();
        }
        assert!(months.0.lock().unwrap().len() <= TEAMS_MANY + 1);
    }
}
