//! Batches that are retried, returned and given up.

use super::*;
use crate::ship::fake_sink::FakeSink;
use crate::ship::retries::FailureReport;
use bytes::Bytes;
use millrace_clickhouse::{InsertError, InsertOutcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

fn delivery<'a>(
    (retries, stored_counts): (&'a Retries, &'a StoredCounts),
    body: &'a Vec<Bytes>,
) -> Delivery<'a, Vec<Bytes>> {
    Delivery {
        id: 7,
        retries,
        lane: "live",
        scope: "node",
        insert_target: "events(uuid)",
        table: Some(Table::Events),
        month: Month(202_611),
        token: "token",
        lookup: RowLookup::default(),
        body,
        boot_id: None,
        in_doubt: false,
        is_part: false,
        history: FailureHistory::default(),
        stored_counts,
        stage: DeliveryStage::First,
    }
}

/// Sink whose every insert fails like this, up to a time if there is one; and the number of tries.
fn failing(
    (outcome, code): (InsertOutcome, Option<u32>),
    back: Option<Instant>,
) -> (FakeSink, Arc<AtomicU32>) {
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        if back.is_some_and(|back| Instant::now() >= back) {
            return Ok(());
        }
        Err(InsertError {
            outcome,
            code,
            message: "no".to_owned(),
        })
    });
    (sink, tries)
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_one_exception_again_and_again_is_returned_unless_the_server_is_to_blame() {
    // Codes answered in turn, and the number of tries after which the batch is returned.
    let table: [(&[u32], Option<u32>); 6] = [
        (&[241], Some(3)),
        (&[395], Some(8)),
        (&[395, 395, 395, 70, 70], None),
        (&[242], None),
        (&[999], None),
        (&[216], None),
    ];
    for (codes, expected) in table {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let sink = FakeSink::answering(move || {
            let nth = counted.fetch_add(1, Ordering::Relaxed);
            if nth == 40 {
                return Ok(());
            }
            Err(InsertError {
                outcome: InsertOutcome::Unknown,
                code: codes.get(nth as usize % codes.len()).copied(),
                message: "no".to_owned(),
            })
        });
        let (retries, mut reports) = Retries::new(1);
        let body = Vec::<Bytes>::new();
        let settled = delivery((&retries, &StoredCounts::default()), &body)
            .settle(&sink)
            .await;
        let refused = matches!(settled, InsertResult::Unproven { .. });
        let tries = tries.load(Ordering::Relaxed);
        assert_eq!(refused.then_some(tries), expected, "{codes:?}");
        assert!(refused || matches!(settled, InsertResult::Stored));
        assert_eq!(
            reports.try_recv(),
            if tries > 3 {
                Ok(FailureReport {
                    id: 7,
                    is_unreachable: false,
                    is_parked: false,
                })
            } else {
                Err(TryRecvError::Empty)
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn failing_updates_of_persons_do_not_wait_for_a_permit_of_failing_batches() {
    for (table, expected) in [(Table::PersonUpdates, true), (Table::Events, false)] {
        let back = Instant::now() + Duration::from_secs(10);
        let (sink, _) = failing((InsertOutcome::Unknown, None), Some(back));
        let (retries, _reports) = Retries::new(1);
        let failing_others = Failures::before(DeliveryStage::KeptWhole);
        let permit_of_others = retries.permit(&failing_others).await;
        let (body, stored_counts) = (Vec::<Bytes>::new(), StoredCounts::default());
        let mut delivery = delivery((&retries, &stored_counts), &body);
        delivery.table = Some(table);
        let an_hour = Duration::from_secs(3_600);
        let settled = tokio::time::timeout(an_hour, delivery.settle(&sink)).await;
        let is_stored = matches!(settled, Ok(InsertResult::Stored));
        assert_eq!(is_stored, expected, "{table:?}");
        drop(permit_of_others);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_too_large_for_a_gateway_is_returned_after_three_tries_to_be_sent_by_halves() {
    let (sink, tries) = failing((InsertOutcome::TooLarge, None), None);
    let (retries, _reports) = Retries::new(1);
    let body = Vec::<Bytes>::new();
    let stored_counts = StoredCounts::default();
    let delivery = delivery((&retries, &stored_counts), &body);
    let an_hour = Duration::from_secs(3_600);
    let settled = tokio::time::timeout(an_hour, delivery.settle(&sink)).await;
    assert!(matches!(settled, Ok(InsertResult::Unproven { .. })));
    assert_eq!(tries.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn each_change_of_reachability_of_a_failing_batch_is_reported() {
    let tries = AtomicU32::new(0);
    let sink = FakeSink::answering(move || {
        let (outcome, code) = match tries.fetch_add(1, Ordering::Relaxed) {
            0..2 => (InsertOutcome::Misconfigured, Some(497)),
            2..5 | 9..12 => (InsertOutcome::NotStored, None),
            5..9 => (InsertOutcome::Misconfigured, Some(497)),
            _ => return Ok(()),
        };
        Err(InsertError {
            outcome,
            code,
            message: "no".to_owned(),
        })
    });
    let (retries, mut reports) = Retries::new(1);
    let body = Vec::<Bytes>::new();
    let stored_counts = StoredCounts::default();
    let settled = delivery((&retries, &stored_counts), &body);
    assert!(matches!(settled.settle(&sink).await, InsertResult::Stored));
    let mut reported = Vec::new();
    while let Ok(report) = reports.try_recv() {
        reported.push(report.is_unreachable);
    }
    assert_eq!(reported, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn of_the_failing_batches_of_a_month_one_is_tried_until_it_is_through() {
    let (began, an_hour) = (Instant::now(), Duration::from_secs(3_600));
    let full = (InsertOutcome::NotStored, Some(252));
    let (retries, mut reports) = Retries::new(4);
    let (body, stored_counts) = (Vec::<Bytes>::new(), StoredCounts::default());
    let months = [202_611, 202_611, 202_611, 202_612];
    let batches = months.map(|month| {
        let (sink, tries) = failing(full, Some(began + an_hour));
        let of_month = Delivery {
            month: Month(month),
            ..delivery((&retries, &stored_counts), &body)
        };
        (of_month, sink, tries)
    });
    let tries = batches.each_ref().map(|(_, _, tries)| Arc::clone(tries));
    let settled = batches.map(|(of_month, sink, _)| async move { of_month.settle(&sink).await });
    let [first, second, third, other] = settled;
    let watched = async {
        tokio::time::sleep(an_hour - Duration::from_secs(1)).await;
        let [mut of_month @ .., of_other] = tries.each_ref().map(|it| it.load(Ordering::Relaxed));
        of_month.sort_unstable();
        let [parked, also_parked, tried] = of_month;
        assert_eq!([parked, also_parked], [1, 1], "after their first failure");
        assert!(tried > 100 && of_other > 100, "{tried}, {of_other}");
        let reported: Vec<_> = std::iter::from_fn(|| reports.try_recv().ok()).collect();
        assert_eq!(reported.len(), 4, "all count as failing");
        let parked = reported.iter().filter(|report| report.is_parked);
        assert_eq!(parked.count(), 2);
    };
    let (first, second, third, other, ()) = tokio::join!(first, second, third, other, watched);
    for settled in [first, second, third, other] {
        assert!(matches!(settled, InsertResult::Stored), "{settled:?}");
    }
    let late = began.elapsed() - an_hour;
    assert!(late < Duration::from_secs(20), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_months_inserts_that_time_out_all_but_one_are_parked_at_once() {
    let (time_out, moment) = (Duration::from_secs(120), Duration::from_secs(1));
    let (sink, tries) = failing((InsertOutcome::Unknown, None), None);
    let sink = sink.after(time_out);
    let (retries, mut reports) = Retries::new(4);
    let (body, stored_counts) = (Vec::<Bytes>::new(), StoredCounts::default());
    let [first, next, third, last] = [0, 1, 2, 3].map(|id| {
        let of_month = Delivery {
            id,
            ..delivery((&retries, &stored_counts), &body)
        };
        of_month.settle(&sink)
    });
    let watched = async {
        tokio::time::sleep(time_out - moment).await;
        // Each has a permit of the lane.
        assert_eq!(reports.try_recv(), Err(TryRecvError::Empty));
        tokio::time::sleep(2 * moment).await;
        let reported: Vec<_> = std::iter::from_fn(|| reports.try_recv().ok()).collect();
        let parked = reported.iter().filter(|report| report.is_parked);
        assert_eq!((parked.count(), reported.len()), (3, 3));
        // The one that is tried keeps its permit until its third failure.
        tokio::time::sleep(2 * time_out).await;
        assert!(reports.try_recv().is_ok_and(|report| !report.is_parked));
        assert_eq!(tries.load(Ordering::Relaxed), 4 + 2);
    };
    tokio::select! {
        _ = async { tokio::join!(first, next, third, last) } => panic!("none is answered"),
        () = watched => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_waits_for_no_lock_and_a_dropped_batch_gives_its_lock_back() {
    let (retries, _reports) = Retries::new(4);
    let (body, stored_counts) = (Vec::<Bytes>::new(), StoredCounts::default());
    let new = || delivery((&retries, &stored_counts), &body);
    let (stuck, _) = failing((InsertOutcome::NotStored, Some(252)), None);
    let soon = Duration::from_secs(60);
    let mut held = Box::pin(new().settle(&stuck));
    let waited = tokio::time::timeout(soon, &mut held).await;
    assert!(waited.is_err(), "it holds the lock of its month");
    for (is_part, is_tried) in [(true, true), (false, false)] {
        let (sink, tries) = failing((InsertOutcome::NotStored, Some(252)), None);
        let settled = Delivery { is_part, ..new() }.settle(&sink);
        let waited = tokio::time::timeout(soon, settled).await;
        assert!(waited.is_err());
        assert_eq!(tries.load(Ordering::Relaxed) > 1, is_tried, "{is_part}");
    }
    drop(held);
    let back = Instant::now() + soon;
    let (sink, _) = failing((InsertOutcome::NotStored, Some(252)), Some(back));
    assert!(matches!(new().settle(&sink).await, InsertResult::Stored));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_may_be_failing_alone_goes_behind_the_others_of_its_month() {
    for (fault, goes_behind) in [
        ((InsertOutcome::Unknown, None), true),
        ((InsertOutcome::Unknown, Some(216)), true),
        ((InsertOutcome::Unread, None), true),
        ((InsertOutcome::NotStored, Some(252)), false),
        ((InsertOutcome::NotStored, None), false),
        ((InsertOutcome::Misconfigured, Some(497)), false),
    ] {
        let (retries, _reports) = Retries::new(4);
        let (body, stored_counts) = (Vec::<Bytes>::new(), StoredCounts::default());
        let new = || delivery((&retries, &stored_counts), &body);
        let (stuck, _) = failing(fault, None);
        let minute = Duration::from_secs(60);
        let mut held = Box::pin(new().settle(&stuck));
        let waited = tokio::time::timeout(minute, &mut held).await;
        assert!(waited.is_err(), "it holds the lock of its month");
        // It fails once, and waits for the lock.
        let (sink, _) = failing(fault, Some(Instant::now() + Duration::from_millis(1)));
        let other = tokio::time::timeout(10 * minute, new().settle(&sink));
        let settled = tokio::select! {
            settled = &mut held => panic!("{settled:?}"),
            settled = other => settled,
        };
        assert_eq!(settled.is_ok(), goes_behind, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_an_unknown_table_are_given_up_once_clickhouse_answers_without_proof() {
    let (retries, _reports) = Retries::new(1);
    let stored_counts = StoredCounts::default();
    let body = Vec::<Bytes>::new();
    for (table, is_given_up) in [(None, true), (Some(Table::Events), false)] {
        let back = Instant::now() + Duration::from_secs(3_600);
        let (sink, tries) = failing((InsertOutcome::Unproven, None), None);
        let sink = sink.asked(move || match Instant::now() < back {
            true => Err(QueryError::without_code("away")),
            false => Ok(false),
        });
        let delivery = Delivery {
            table,
            ..delivery((&retries, &stored_counts), &body)
        };
        let two_hours = Duration::from_secs(7_200);
        let settled = tokio::time::timeout(two_hours, delivery.settle(&sink)).await;
        let settled = settled.ok();
        let is_unknowable = matches!(settled, Some(InsertResult::Unknowable(_)));
        assert_eq!(is_unknowable, is_given_up, "{settled:?}");
        assert_eq!(settled.is_some(), is_given_up);
        assert!(Instant::now() >= back, "ClickHouse was down");
        assert!(tries.load(Ordering::Relaxed) >= 8);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_an_unknown_table_that_are_refused_again_and_again_are_never_halved() {
    let (large, memory) = (
        (InsertOutcome::TooLarge, None),
        (InsertOutcome::Unknown, Some(241)),
    );
    let (first, last) = (DeliveryStage::First, DeliveryStage::LastPart);
    // Returned with the answer to whether they can be halved, or tried on.
    let table = [
        (Some(Table::Events), large, first, Some(true)),
        (None, large, first, Some(false)),
        (None, memory, first, Some(false)),
        (None, large, DeliveryStage::KeptWhole, Some(false)),
        (None, large, last, None),
        (None, memory, last, None),
    ];
    for (table, failure, stage, expected) in table {
        let stored_counts = StoredCounts::default();
        let (sink, _) = failing(failure, None);
        let (retries, _reports) = Retries::new(1);
        let body = Vec::<Bytes>::new();
        let delivery = Delivery {
            table,
            stage,
            history: FailureHistory::new(false, stage),
            ..delivery((&retries, &stored_counts), &body)
        };
        let an_hour = Duration::from_secs(3_600);
        let settled = tokio::time::timeout(an_hour, delivery.settle(&sink)).await;
        let halved = match settled {
            Ok(InsertResult::Unproven { can_halve, .. }) => Some(can_halve),
            Ok(other) => panic!("{failure:?}, {stage:?}: {other:?}"),
            Err(_) => None,
        };
        assert_eq!(halved, expected, "{table:?}, {failure:?}, {stage:?}");
    }
}

/// Delivers to a server that fails like this for an hour; returns how long after that it has the
/// rows, and the number of tries.
async fn after_an_hour_of(outcome: InsertOutcome, code: Option<u32>) -> (Duration, u32) {
    let back = Instant::now() + Duration::from_secs(3_600);
    let (sink, tries) = failing((outcome, code), Some(back));
    let (retries, _reports) = Retries::new(1);
    let body = Vec::<Bytes>::new();
    let settled = delivery((&retries, &StoredCounts::default()), &body)
        .settle(&sink)
        .await;
    assert!(matches!(settled, InsertResult::Stored), "{settled:?}");
    (back.elapsed(), tries.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_servers_return_is_noticed_in_two_seconds_and_a_refusing_server_is_spared() {
    let table = [
        (InsertOutcome::Unknown, None, 20),
        (InsertOutcome::NotStored, None, 2),
        (InsertOutcome::NotStored, Some(252), 20),
        (InsertOutcome::Misconfigured, Some(516), 20),
    ];
    for (outcome, code, seconds) in table {
        let (late, tries) = after_an_hour_of(outcome, code).await;
        assert!(
            late <= Duration::from_secs(seconds),
            "{outcome:?}: {late:?}"
        );
        assert!(tries < 7_200 / seconds as u32 + 20, "{outcome:?}: {tries}");
    }
}
