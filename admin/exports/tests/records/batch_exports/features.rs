//! Organizations whose exports were taken away as a feature.

use super::{COMMAND_LINE, HOUR, TestEnv, new_export};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ChangeError, RunStatus, UtcTime};
use millrace_exports::{
    BackfillRange, Backfills, BatchExportChange, BatchExports, ExportLogFilter, ExportLogs,
    ExportPlanner, ExportRuns, NewBatchExport, NewRun, set_features,
};
use millrace_organizations::testing::fixture::{ALL, NOW};

on_both!(
    exports_are_paused_with_the_feature_and_go_on_when_somebody_says_so,
    requests_admitted_before_the_feature_was_removed_change_nothing_after_it,
);

async fn switch(env: &TestEnv, on: &[&str], off: &[&str]) {
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let (catalog, id) = (&env.fixture.catalog, env.fixture.organization_id);
    let (on, off) = (keys(on), keys(off));
    let set = set_features(catalog, &COMMAND_LINE, id, &on, &off);
    set.await.unwrap();
}

async fn exports_are_paused_with_the_feature_and_go_on_when_somebody_says_so(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor) = (&env.fixture.catalog, &env.fixture.actor);
    let place = env.place();
    let active = env.made().await;
    let paused = NewBatchExport {
        paused: true,
        ..new_export()
    };
    let paused = env.make(paused).await.unwrap();
    let foreign = env.foreign_export().await;
    let backfill = env.backfill(paused.id).await;
    let seen = |id| async move {
        BatchExports::new(catalog)
            .get(place, id)
            .await
            .unwrap()
            .unwrap()
    };

    switch(&env, &[], &["saml"]).await;
    assert!(!seen(active.id).await.export.paused, "another feature");
    env.fixture.pass_micros(HOUR / 2);
    switch(&env, &[], &["data_pipelines"]).await;
    let after = seen(active.id).await.export;
    let now = UtcTime(NOW.0 + HOUR / 2);
    assert_eq!((after.paused, after.last_paused_at), (true, Some(now)));
    let same = seen(paused.id).await.export;
    assert_eq!(same.last_paused_at, paused.last_paused_at, "before");
    let found = Backfills::new(catalog)
        .get(place, paused.id, backfill)
        .await;
    assert_eq!(found.unwrap().unwrap().status, RunStatus::Cancelled);
    let filter = ExportLogFilter::default();
    let lines = ExportLogs::new(catalog).list(place, active.id, &filter, ALL);
    let lines = lines.await.unwrap().unwrap().rows;
    assert!(lines[0].message.contains("may not use"), "{lines:?}");

    env.fixture.pass_micros(3 * HOUR);
    let until = UtcTime(NOW.0 + 3 * HOUR);
    assert_eq!(
        ExportPlanner::new(catalog)
            .plan_windows(until)
            .await
            .unwrap(),
        3
    );
    let page = BatchExports::new(catalog)
        .get(env.foreign_place(), foreign.id)
        .await;
    assert_eq!(
        page.unwrap().unwrap().export.runs_count,
        3,
        "of another one"
    );
    switch(&env, &["data_pipelines"], &[]).await;
    assert!(seen(active.id).await.export.paused, "nobody has said so");
    let unpaused = BatchExports::new(catalog).unpause(actor, place, active.id, true);
    let unpaused = unpaused.await.unwrap();
    assert!(!unpaused.view.export.paused);
    assert_eq!(unpaused.backfill.unwrap().start_at, Some(now));
}

fn is_missing<T>(outcome: &Result<T, ChangeError>) -> bool {
    matches!(outcome, Err(ChangeError::FeatureMissing("data_pipelines")))
}

/// Requests that wait for the organization behind an operator who takes the feature away were
/// admitted by the API: the state that the catalog sees then decides.
async fn requests_admitted_before_the_feature_was_removed_change_nothing_after_it(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor) = (&env.fixture.catalog, &env.fixture.actor);
    let (place, id) = (env.place(), env.made().await.id);
    let window = |hour| NewRun {
        backfill_id: None,
        data_interval_start: Some(UtcTime(NOW.0 + hour * HOUR)),
        data_interval_end: UtcTime(NOW.0 + (hour + 1) * HOUR),
    };
    let ended = env.begin_run(id, window(0)).await;
    let cancelled = ExportRuns::new(catalog).cancel(actor, place, id, ended);
    cancelled.await.unwrap();
    let open = env.begin_run(id, window(1)).await;
    switch(&env, &[], &["data_pipelines"]).await;

    let unpaused = BatchExportChange {
        paused: Some(false),
        ..BatchExportChange::default()
    };
    let range = BackfillRange::default();
    assert!(is_missing(&env.make(new_export()).await));
    let changed = BatchExports::new(catalog).update(env.writer(), id, unpaused);
    assert!(is_missing(&changed.await));
    for with_backfill in [false, true] {
        let unpaused = BatchExports::new(catalog).unpause(actor, place, id, with_backfill);
        assert!(is_missing(&unpaused.await));
    }
    let backfill = Backfills::new(catalog).start(actor, place, id, range);
    assert!(is_missing(&backfill.await));
    let retried = ExportRuns::new(catalog).retry(actor, place, id, ended);
    assert!(is_missing(&retried.await));

    // Stopping an export takes no feature.
    let paused = BatchExports::new(catalog).pause(actor, place, id).await;
    assert!(paused.unwrap().export.paused);
    let cancelled = ExportRuns::new(catalog)
        .cancel(actor, place, id, open)
        .await;
    assert_eq!(cancelled.unwrap().status, RunStatus::Cancelled);
    BatchExports::new(catalog)
        .delete(actor, place, id)
        .await
        .unwrap();
}
