//! What is tried again, given back and given up.

use super::*;
use crate::ship::fake_sink::FakeSink;
use crate::ship::retries::Troubled;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

fn delivery<'a>(
    (retries, stores): (&'a Retries, &'a Stores),
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
        sought: Sought::default(),
        body,
        run: None,
        in_doubt: false,
        answers: Answers::default(),
        stores,
        standing: Standing::Fresh,
    }
}

#[tokio::test(start_paused = true)]
async fn an_exception_that_stays_the_same_is_given_back_unless_it_is_the_servers() {
    // What is answered in turn, and after how many tries that is given back.
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
        let (retries, mut told) = Retries::new(1);
        let body = Vec::<Bytes>::new();
        let settled = delivery((&retries, &Stores::default()), &body)
            .settle(&sink)
            .await;
        let refused = matches!(settled, Settled::Unproven(_));
        let tries = tries.load(Ordering::Relaxed);
        assert_eq!(refused.then_some(tries), expected, "{codes:?}");
        assert!(refused || matches!(settled, Settled::Stored));
        assert_eq!(
            told.try_recv(),
            if tries > 3 {
                let (id, is_away) = (7, false);
                Ok(Troubled { id, is_away })
            } else {
                Err(TryRecvError::Empty)
            }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whether_anybody_can_be_reached_is_told_whenever_it_is_otherwise() {
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
    let (retries, mut told) = Retries::new(1);
    let body = Vec::<Bytes>::new();
    let stores = Stores::default();
    let settled = delivery((&retries, &stores), &body);
    assert!(matches!(settled.settle(&sink).await, Settled::Stored));
    let mut news = Vec::new();
    while let Ok(it) = told.try_recv() {
        news.push(it.is_away);
    }
    assert_eq!(news, [true, false, true]);
}

#[tokio::test(start_paused = true)]
async fn rows_that_cannot_be_looked_for_are_given_up_once_clickhouse_is_there_and_proves_nothing() {
    let (retries, _told) = Retries::new(1);
    let stores = Stores::default();
    let body = Vec::<Bytes>::new();
    for (table, is_given_up) in [(None, true), (Some(Table::Events), false)] {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let back = Instant::now() + Duration::from_secs(3_600);
        let sink = FakeSink::answering(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(InsertError {
                outcome: InsertOutcome::Unproven,
                code: None,
                message: "a gateway's page".to_owned(),
            })
        });
        let sink = sink.asked(move || match Instant::now() < back {
            true => Err(QueryError::without_code("away")),
            false => Ok(false),
        });
        let delivery = Delivery {
            table,
            ..delivery((&retries, &stores), &body)
        };
        let two_hours = Duration::from_secs(7_200);
        let settled = tokio::time::timeout(two_hours, delivery.settle(&sink)).await;
        let settled = settled.ok();
        let is_unknowable = matches!(settled, Some(Settled::Unknowable(_)));
        assert_eq!(is_unknowable, is_given_up, "{settled:?}");
        assert_eq!(settled.is_some(), is_given_up);
        assert!(Instant::now() >= back, "ClickHouse was away");
        assert!(tries.load(Ordering::Relaxed) >= 8);
    }
}

/// Delivers to a server that fails like this for an hour; how long after that it has the rows,
/// and how often it was tried.
async fn after_an_hour_of(outcome: InsertOutcome, code: Option<u32>) -> (Duration, u32) {
    let back = Instant::now() + Duration::from_secs(3_600);
    let tries = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tries);
    let sink = FakeSink::answering(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        if Instant::now() >= back {
            return Ok(());
        }
        Err(InsertError {
            outcome,
            code,
            message: "no".to_owned(),
        })
    });
    let (retries, _told) = Retries::new(1);
    let body = Vec::<Bytes>::new();
    let settled = delivery((&retries, &Stores::default()), &body)
        .settle(&sink)
        .await;
    assert!(matches!(settled, Settled::Stored), "{settled:?}");
    (back.elapsed(), tries.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn the_return_of_a_server_is_noticed_in_two_seconds_and_one_that_refuses_is_let_alone() {
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
