//! Events of imports: counted with their group, and refunded when they are not stored.

use crate::commit::{NOVEMBER, batch, group, start};
use millrace_pipeline::{ImportReservation, ImportTokens, Refusal};
use millrace_rows::{Lane, Table};
use std::sync::Arc;

/// A reservation of so many events, and the tokens that it is of.
fn reservation(events: u64) -> (ImportReservation, Arc<ImportTokens>) {
    let tokens = Arc::new(ImportTokens::default());
    tokens.add(events);
    (tokens.reserve(events).unwrap(), tokens)
}

#[test]
fn all_of_the_events_are_reserved_or_none() {
    let tokens = Arc::new(ImportTokens::default());
    tokens.add(10);
    let first = tokens.reserve(7).unwrap();
    assert!(tokens.reserve(4).is_none());
    assert_eq!(tokens.withdraw(2), 2);
    assert_eq!(tokens.withdraw(2), 1, "more is not there");
    drop(first);
    assert_eq!((tokens.available(), tokens.counted()), (7, 0));
}

#[tokio::test]
async fn stored_events_are_counted_before_they_are_acknowledged() {
    let fixture = start(|_| {});
    let (reservation, tokens) = reservation(3);
    let groups = vec![
        group(Table::Events, NOVEMBER, 3, b"three events"),
        group(Table::RejectedEvents, NOVEMBER, 1, b"not an event"),
    ];
    let slot = fixture.pipeline.reserve(Lane::Historical, 100).unwrap();
    let stored = slot.submit_counted(batch(Lane::Historical, groups), reservation, drop);
    stored.await.unwrap();
    assert_eq!((tokens.available(), tokens.counted()), (0, 3));
    fixture.pipeline.close();
    fixture.running.stop();
}

#[tokio::test]
async fn reserved_events_that_are_not_stored_are_refunded() {
    let fixture = start(|options| options.log_bytes_max = 3 << 20);
    let pipeline = &fixture.pipeline;
    let refusal = loop {
        let slot = match pipeline.reserve(Lane::Historical, 100) {
            Ok(slot) => slot,
            Err(refusal) => break refusal,
        };
        let noise: Vec<u8> = (0..1 << 20)
            .map(|at: u32| (at.wrapping_mul(at) >> 7) as u8)
            .collect();
        let rows = vec![group(Table::Events, NOVEMBER, 1, &noise)];
        let (reservation, tokens) = reservation(9);
        let stored = slot.submit_counted(batch(Lane::Historical, rows), reservation, drop);
        match stored.await {
            Ok(_) => assert_eq!((tokens.available(), tokens.counted()), (0, 9)),
            Err(refusal) => {
                assert_eq!((tokens.available(), tokens.counted()), (9, 0));
                break refusal;
            }
        }
    };
    assert!(
        matches!(refusal, Refusal::LogFull | Refusal::ImportLoadShed),
        "{refusal:?}"
    );
    // After this nobody commits any more.
    pipeline.close();
    fixture.running.stop();
}
