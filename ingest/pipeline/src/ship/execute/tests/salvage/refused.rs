//! Salvaged rows that ClickHouse refuses.

use super::*;

#[tokio::test(start_paused = true)]
async fn salvaged_rows_that_clickhouse_cannot_read_are_sent_by_halves() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let (retries, dead_letters) = (Retries::new(1).0, dir.path().join("dead-letters"));
    let failure = (InsertOutcome::BadData, 117);
    let (context, _) = refusing_all((&log, failure), &dead_letters, retries);
    let executed = context.execute(0, Arc::new(batch), DeliveryStage::First);
    let result = executed.await;
    assert!(matches!(result, InsertResult::Refused(_)), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_refused_for_no_known_reason_are_given_up_once_others_are_stored() {
    // Code 241 means too little memory: never the fault of so few rows.
    for (code, is_given_up) in [(395, true), (241, false)] {
        let dir = tempfile::tempdir().unwrap();
        let (log, batch) = damaged(dir.path(), true);
        let (key, batch) = (batch.key.clone(), Arc::new(batch));
        let dead_letters = dir.path().join("dead-letters");
        let failure = (InsertOutcome::Unknown, code);
        let (context, tries) = refusing_all((&log, failure), &dead_letters, Retries::new(1).0);
        for _ in 0..10 {
            context.stored_counts.count(&key);
        }
        let execute = |stage| Arc::clone(&context).execute(7, Arc::clone(&batch), stage);
        let first = execute(DeliveryStage::First).await;
        assert!(is_unproven(&first), "the server may be to blame: {first:?}");
        let mut executed = tokio::spawn(execute(DeliveryStage::LastPart));
        let an_hour = Duration::from_secs(3_600);
        let waited = tokio::time::timeout(an_hour, &mut executed).await;
        assert!(waited.is_err(), "given up while nothing else is stored");
        assert!(tries.load(Ordering::Relaxed) > 100, "tried on");
        let result = result_while_others_are_stored(&context, &key, executed).await;
        match is_given_up {
            true => assert!(matches!(result, InsertResult::DeadLettered), "{result:?}"),
            false => assert!(is_unproven(&result), "{result:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn salvaged_rows_for_which_memory_is_missing_count_as_failing_and_as_retried() {
    let dir = tempfile::tempdir().unwrap();
    let (log, batch) = damaged(dir.path(), true);
    let (retries, mut reports) = Retries::new(1);
    let dead_letters = dir.path().join("dead-letters");
    let failure = (InsertOutcome::Unknown, 241);
    let (context, tries) = refusing_all((&log, failure), &dead_letters, retries);
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let metrics = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let executed = context.execute(7, Arc::new(batch), DeliveryStage::LastPart);
    let waited = tokio::time::timeout(Duration::from_secs(60), executed).await;
    assert!(waited.is_err(), "given up");
    let report = reports.try_recv().unwrap();
    assert_eq!((report.id, report.is_unreachable), (7, false));
    let told = metrics.render();
    let told = told
        .lines()
        .find(|line| line.starts_with("millrace_insert_retries_total"));
    assert!(told.is_some_and(|it| it.contains("unknown")), "{told:?}");
    assert!(tries.load(Ordering::Relaxed) > 5);
}
