//! Tests of the limit of older months.

use super::server_bucket::{SERVER_MONTH_EVERY, SERVER_MONTHS_MAX};
use super::*;
use millrace_rows::{Lane, RowGroup, Table};
use uuid::Uuid;

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

/// Organization of that number.
fn owner(number: u128) -> MonthOwner {
    MonthOwner::Organization(Uuid::from_u128(number))
}

/// Batch of so many months from the first of `year` on.
fn from(year: u32, count: u32) -> Batch {
    batch((0..count).map(|month| (year + month / 12) * 100 + month % 12 + 1))
}

#[test]
fn ten_years_at_once_are_accepted_and_then_eight_months_a_second() {
    let (months, start) = (MonthLimiter::default(), Instant::now());
    let charge = |number, batch: &Batch, millis| {
        let now = start + Duration::from_millis(millis);
        let paid = months.charge(|| owner(number), batch, NOW, now);
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
        charge(2, &from(1970, 90), 6_000),
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
            .charge(|| owner(1), &batch, NOW, now)
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
        months.charge(|| owner(1), batch, NOW, now)
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
                || owner(1),
                &batch([202_610, 202_611, 202_612, 210_001]),
                NOW,
                Instant::now(),
            )
            .unwrap()
            .keep();
    }
    assert!(months.0.lock().unwrap().owners.is_empty());
}

#[test]
fn idle_organizations_are_forgotten() {
    let (months, start) = (MonthLimiter::default(), Instant::now());
    for number in 0..3_000 {
        let now = start + Duration::from_millis(10 * number);
        months
            .charge(|| owner(number.into()), &batch([202_001]), NOW, now)
            .unwrap()
            .keep();
    }
    assert!(months.0.lock().unwrap().owners.len() <= OWNERS_MANY + 1);
}

/// Months from that one on, counted from 1970 to 2019 and then from 1970 again.
fn around(first: u32, count: u32) -> Batch {
    let months = (first..first + count).map(|month| month % 600);
    batch(months.map(|month| (1970 + month / 12) * 100 + month % 12 + 1))
}

#[test]
fn many_organizations_begin_no_more_than_the_servers_bucket_has_and_leave_a_share() {
    const TENTHS: u32 = 600;
    for organizations in [2_u32, 17, 100] {
        let (months, start) = (MonthLimiter::default(), Instant::now());
        let mut begun = 0;
        let charge = |number: u32, batch: &Batch, now| {
            let charge = months.charge(|| owner(number.into()), batch, NOW, now);
            charge.ok().and_then(|mut charge| charge.0.take())
        };
        for tenth in 0..TENTHS {
            let now = start + Duration::from_millis(100) * tenth;
            for number in 0..organizations {
                // Each begins as many months as it may, and always others.
                for count in [120, 60, 20, 5, 1] {
                    let all = around(tenth * 83 + number * 41, count);
                    let charged = charge(number, &all, now);
                    begun += charged.map_or(0, |(_, charged)| charged.server.months.len());
                }
            }
        }
        let seconds = usize::try_from(TENTHS / 10).unwrap();
        let most = SERVER_MONTHS_MAX + 16 * seconds;
        assert_eq!(SERVER_MONTH_EVERY * 16, Duration::from_secs(1));
        assert!(begun <= most, "{organizations}: {begun} months");
        assert!(begun > most / 2, "{organizations}: {begun} months");
        let share = (256 / (4 * (organizations + 1))).max(1);
        let now = start + Duration::from_millis(100) * TENTHS;
        let later = charge(1_000, &from(2020, share), now);
        assert!(later.is_some(), "{organizations}: none of {share} months");
    }
}

#[test]
fn months_that_others_began_lately_are_free_for_the_server() {
    let (months, now) = (MonthLimiter::default(), Instant::now());
    for number in 0..1_000 {
        let charge = months.charge(|| owner(number), &from(2024, 24), NOW, now);
        charge.unwrap().keep();
    }
    let other = months.charge(|| owner(1_000), &from(1970, 100), NOW, now);
    assert!(other.is_ok(), "24 months were begun, and no more");
}

#[test]
fn an_import_of_all_months_leaves_others_their_share() {
    let (months, start) = (MonthLimiter::default(), Instant::now());
    let import = Batch {
        lane: Lane::Historical,
        ..around(0, 600)
    };
    let charge =
        |number: u128, batch: &Batch, now| months.charge(|| owner(number), batch, NOW, now);
    charge(1, &import, start).unwrap().keep();
    // Of months that the import did not begin.
    charge(2, &from(2020, 40), start).unwrap().keep();
    let other_import = Batch {
        lane: Lane::Historical,
        ..from(2021, 70)
    };
    let refused = charge(3, &other_import, start + Duration::from_secs(7));
    assert!(refused.is_err(), "the excess of one import at a time");
    let later = start + Duration::from_secs(60);
    charge(3, &other_import, later).unwrap().keep();
}
