//! Backfills: their ranges, settings, lists and limit.

mod runs;
mod without_runs;

use super::{COMMAND_LINE, HOUR, TestEnv, new_export, violation};
use millrace_catalog::limits::OPEN_BACKFILLS_MAX;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExport, ChangeError, ExportModel, PageRequest, RunStatus, UtcTime};
use millrace_exports::{
    BackfillRange, Backfills, BatchExportChange, BatchExports, DestinationChange, ExportRuns,
    RunRoundRobin,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

on_both!(
    invalid_backfill_ranges_are_refused,
    a_backfill_uses_the_export_settings_at_its_request,
    backfills_are_listed_newest_first_for_their_owner_only,
    an_export_has_a_limit_of_open_backfills,
);

async fn invalid_backfill_ranges_are_refused(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let export_id = env.made().await.id;
    let now = NOW.0;
    let table = [
        (None, None, None),
        (Some(0), Some(1), None),
        (Some(now - HOUR), None, None),
        (None, Some(now + HOUR), None),
        (Some(now + 1), Some(now + HOUR), None),
        (Some(1), Some(1), Some("start_at")),
        (Some(2), Some(1), Some("start_at")),
        (Some(now), None, Some("start_at")),
        (None, Some(now + HOUR + 1), Some("end_at")),
    ];
    for (start, end, blamed) in table {
        let range = BackfillRange {
            start_at: start.map(UtcTime),
            end_at: end.map(UtcTime),
        };
        let started = Backfills::new(catalog)
            .start(&fixture.actor, env.place(), export_id, range)
            .await;
        match blamed {
            None => {
                let backfill = started.unwrap();
                assert_eq!(
                    (backfill.start_at, backfill.end_at),
                    (range.start_at, range.end_at)
                );
                let has_ended = start.is_none_or(|start| start <= now);
                let expected = match has_ended {
                    true => (RunStatus::Starting, None),
                    false => (RunStatus::Completed, Some(0)),
                };
                assert_eq!((backfill.status, backfill.total_runs), expected);
            }
            Some(field) => {
                let expected = (Some(field.to_owned()), "invalid_input");
                assert_eq!(violation(&started.unwrap_err()), expected, "{range:?}");
            }
        }
    }
}

/// New export with a backfill; answers the ids of both.
async fn asked(env: &TestEnv) -> (Uuid, Uuid) {
    let export_id = env.made().await.id;
    (env.backfill(export_id).await, export_id)
}

async fn a_backfill_uses_the_export_settings_at_its_request(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (id, export_id) = asked(&env).await;
    let query = ("SELECT event FROM events".to_owned(), json!([]));
    let destination = DestinationChange {
        config: json!({"include_events": ["only"]})
            .as_object()
            .cloned()
            .unwrap(),
        ..new_export().destination
    };
    let change = BatchExportChange {
        interval: Some("day".to_owned()),
        model: Some(ExportModel::Persons),
        destination: Some(destination),
        query: Some(Some(query)),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog).update(env.writer(), export_id, change);
    let changed = changed.await.unwrap().export;
    let parts = |export: &BatchExport| {
        let included = export.destination_config.get("include_events").cloned();
        let query = export.hogql_query.clone();
        (export.interval.clone(), export.model, query, included)
    };
    let as_asked = ("hour".to_owned(), ExportModel::Events, None, None);
    assert_ne!(parts(&changed), as_asked);
    let open = env.backfills_to_plan().await;
    assert_eq!(parts(&open[0].export), as_asked);
    let window = (UtcTime(0), UtcTime(HOUR));
    let begun = ExportRuns::new(catalog)
        .begin_of_backfill(id, window)
        .await
        .unwrap();
    let mut round_robin = RunRoundRobin::new(10);
    let claimed = ExportRuns::new(catalog).claim(Duration::from_secs(60), &mut round_robin);
    let claimed = claimed.await.unwrap().unwrap();
    assert_eq!(claimed.run.id, begun.unwrap().id);
    assert_eq!(parts(&claimed.export), as_asked);
}

async fn backfills_are_listed_newest_first_for_their_owner_only(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog, place) = (&env.fixture, &env.fixture.catalog, env.place());
    let (export_id, other) = (env.made().await.id, env.made().await.id);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(env.backfill(export_id).await);
        fixture.pass_micros(1);
    }
    ids.reverse();
    let (counted, count) = catalog.counted();
    let listed = Backfills::new(&counted)
        .list(place, export_id, ALL)
        .await
        .unwrap()
        .unwrap();
    let found: Vec<_> = listed.rows.iter().map(|backfill| backfill.id).collect();
    assert_eq!(
        (listed.count, found, count.take().len()),
        (3, ids.clone(), 3)
    );
    let foreign = env.foreign_place();
    assert_eq!(
        Backfills::new(catalog)
            .list(foreign, export_id, ALL)
            .await
            .unwrap(),
        None
    );
    let strange = [
        (foreign, export_id, ids[0]),
        (place, other, ids[0]),
        (place, export_id, Uuid::now_v7()),
    ];
    for (place, export_id, id) in strange {
        assert_eq!(
            Backfills::new(catalog)
                .get(place, export_id, id)
                .await
                .unwrap(),
            None
        );
        let cancelled = Backfills::new(catalog)
            .cancel(&COMMAND_LINE, place, export_id, id)
            .await;
        assert!(matches!(cancelled, Err(ChangeError::NotFound { .. })));
    }
}

async fn an_export_has_a_limit_of_open_backfills(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let export_id = env.made().await.id;
    let start = || Backfills::new(catalog).start(actor, place, export_id, BackfillRange::default());
    for _ in 0..OPEN_BACKFILLS_MAX {
        start().await.unwrap();
    }
    let error = start().await.unwrap_err();
    assert_eq!(violation(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("cancel one"), "{error}");
    let page = PageRequest {
        limit: 1,
        offset: 0,
    };
    let open = Backfills::new(catalog).list(place, export_id, page).await;
    let open = open.unwrap().unwrap().rows.remove(0).id;
    let cancelled = Backfills::new(catalog).cancel(actor, place, export_id, open);
    cancelled.await.unwrap();
    start().await.unwrap();
}
