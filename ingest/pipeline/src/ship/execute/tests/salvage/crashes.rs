//! Crashes of the server and the shipper while salvaged rows are sent.

use super::*;
use std::collections::HashSet;

#[tokio::test(start_paused = true)]
async fn rows_of_a_damaged_section_are_sent_once_although_server_and_shipper_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), false);
    let sink = MemorySink::default();
    let context = context(&log, &sink, &dir.path().join("dead-letters"));
    let execute = |batch: &InsertBatch<FrameSection>| {
        Arc::clone(&context).execute(0, Arc::new(batch.clone()), DeliveryStage::First)
    };
    let first = InsertBatch {
        boot_id: Some(Uuid::nil()),
        ..batch
    };
    sink.state().boot_id = 1;
    let result = execute(&first).await;
    assert!(matches!(result, InsertResult::Absent), "{result:?}");
    assert!(sink.uuids().is_empty(), "not recorded, and sent");
    // As the plan records it.
    let mut next = InsertBatch {
        attempt: 1,
        boot_id: Some(Uuid::from_u128(1)),
        ..first
    };
    sink.state().hangs = true;
    let sent = execute(&next);
    let crashed = tokio::time::timeout(Duration::from_secs(5), sent).await;
    assert!(crashed.is_err() && sink.state().running.is_some());
    next.in_doubt = true;
    let result = execute(&next).await;
    assert!(matches!(result, InsertResult::DeadLettered), "{result:?}");
    let stored = sink.uuids();
    let distinct: HashSet<Uuid> = stored.iter().copied().collect();
    assert_eq!(stored.len(), distinct.len(), "stored twice");
    assert!((101..400).contains(&stored.len()));
}

/// Executes a batch as the lane does, while the shipper crashes in the next inserts. Of each of
/// these the rows are stored or not, and the server restarts as well or not.
async fn settle(
    context: &Arc<InsertContext<MemorySink>>,
    sink: &MemorySink,
    mut batch: InsertBatch<FrameSection>,
    mut crashes: Vec<(bool, bool)>,
) {
    for _ in 0..20 {
        sink.state().hangs = !crashes.is_empty();
        let executed =
            Arc::clone(context).execute(0, Arc::new(batch.clone()), DeliveryStage::First);
        let result = tokio::time::timeout(Duration::from_secs(5), executed).await;
        let now = Some(Uuid::from_u128(sink.state().boot_id));
        match result {
            Ok(InsertResult::Stored | InsertResult::DeadLettered) => return,
            Ok(InsertResult::Absent) => {
                batch.attempt += 1;
                batch.in_doubt = false;
                batch.boot_id = now;
            }
            Ok(InsertResult::Restarted) => batch.boot_id = now,
            Ok(other) => panic!("{other:?}"),
            Err(_) => {
                let (is_stored, restarts) = crashes.pop().unwrap();
                let mut state = sink.state();
                if is_stored && let Some((token, rows)) = state.running.take() {
                    state.store(&token, &rows);
                }
                if restarts {
                    state.running = None;
                    state.boot_id += 1;
                }
                batch.in_doubt = true;
            }
        }
    }
    panic!("not settled: {batch:?}");
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_are_sent_once_whatever_crashes_between_two_tries() {
    let faults = [(false, false), (false, true), (true, false), (true, true)];
    let twice = faults
        .into_iter()
        .flat_map(|it| faults.map(|other| vec![it, other]));
    for crashes in twice {
        for is_first in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (log, batch) = damaged(dir.path(), is_first);
            let sink = MemorySink::default();
            let context = context(&log, &sink, &dir.path().join("dead-letters"));
            let batch = InsertBatch {
                boot_id: Some(Uuid::nil()),
                ..batch
            };
            let case = format!("{crashes:?}, {is_first}");
            settle(&context, &sink, batch, crashes.clone()).await;
            let stored = sink.uuids();
            let distinct: HashSet<Uuid> = stored.iter().copied().collect();
            assert_eq!(stored.len(), distinct.len(), "stored twice: {case}");
            assert!(
                (101..400).contains(&stored.len()),
                "{case}: {}",
                stored.len()
            );
        }
    }
}
