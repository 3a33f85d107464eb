//! Records of exports: made, changed, paused and deleted, with their audit entries.

mod projects;
mod validation;

use super::{COMMAND_LINE, HOUR, TestEnv, destination, new_export, s3};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{ActivityScope, ChangeError, DestinationType, ExportModel, UtcTime};
use millrace_exports::{BatchExportChange, BatchExports, NewBatchExport};
use serde_json::json;
use uuid::Uuid;

on_both!(
    an_export_is_made_found_and_deleted,
    a_change_leaves_fields_that_it_does_not_name,
    pausing_records_its_time,
    audit_entries_name_fields_and_never_their_values,
);

async fn a_change_leaves_fields_that_it_does_not_name(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let made = env.made().await;
    fixture.pass_micros(5);
    let change = BatchExportChange {
        name: Some(" Daily ".to_owned()),
        model: Some(ExportModel::Persons),
        interval: Some("every 15 minutes".to_owned()),
        start_at: Some(Some(UtcTime(1))),
        end_at: Some(Some(UtcTime(2))),
        query: Some(Some(("SELECT 1".to_owned(), json!({ "fields": [] })))),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog)
        .update(env.writer(), made.id, change)
        .await
        .unwrap()
        .export;
    assert_eq!(
        (changed.name.as_str(), changed.model),
        ("Daily", ExportModel::Persons)
    );
    assert_eq!(changed.interval, "every 15 minutes");
    assert_eq!(
        (changed.start_at, changed.end_at),
        (Some(UtcTime(1)), Some(UtcTime(2)))
    );
    assert_eq!(changed.hogql_query.as_deref(), Some("SELECT 1"));
    assert_eq!(changed.last_updated_at, UtcTime(fixture.now().0));
    let cleared = BatchExportChange {
        start_at: Some(None),
        query: Some(None),
        ..BatchExportChange::default()
    };
    let cleared = BatchExports::new(catalog)
        .update(env.writer(), made.id, cleared)
        .await
        .unwrap()
        .export;
    assert_eq!(
        (cleared.start_at, cleared.hogql_query, cleared.query_schema),
        (None, None, None)
    );
    assert_eq!(cleared.end_at, Some(UtcTime(2)));

    fixture.pass_micros(5);
    let nothing = BatchExportChange::default();
    let same = BatchExports::new(catalog)
        .update(env.writer(), made.id, nothing)
        .await
        .unwrap();
    assert_eq!(same.export.last_updated_at, cleared.last_updated_at);
}

async fn an_export_is_made_found_and_deleted(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let made = env.made().await;
    assert_eq!(
        (made.team_id, made.interval.as_str()),
        (fixture.project_id.0, "hour")
    );
    assert!(!made.paused && made.last_paused_at.is_none() && made.runs_count == 0);
    let seen = BatchExports::new(catalog)
        .get(env.place(), made.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&seen.export, seen.latest_runs.len()), (&made, 0));
    assert_eq!(
        BatchExports::new(catalog)
            .get(env.foreign_place(), made.id)
            .await
            .unwrap(),
        None
    );

    let (actor, nothing) = (&fixture.actor, BatchExportChange::default());
    let foreign = BatchExports::new(catalog)
        .delete(&COMMAND_LINE, env.foreign_place(), made.id)
        .await;
    assert!(matches!(foreign, Err(ChangeError::NotFound { .. })));
    BatchExports::new(catalog)
        .delete(actor, env.place(), made.id)
        .await
        .unwrap();
    for id in [made.id, Uuid::now_v7()] {
        assert_eq!(
            BatchExports::new(catalog)
                .get(env.place(), id)
                .await
                .unwrap(),
            None
        );
        let error = BatchExports::new(catalog)
            .update(env.writer(), id, nothing.clone())
            .await;
        assert!(matches!(error, Err(ChangeError::NotFound { .. })));
        let error = BatchExports::new(catalog)
            .delete(actor, env.place(), id)
            .await;
        assert!(matches!(error, Err(ChangeError::NotFound { .. })));
    }
}

async fn pausing_records_its_time(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let (actor, place) = (&fixture.actor, env.place());
    let id = env.made().await.id;
    fixture.pass_micros(HOUR);
    let paused_at = Some(UtcTime(fixture.now().0));
    for _ in 0..2 {
        let paused = BatchExports::new(catalog)
            .pause(actor, place, id)
            .await
            .unwrap()
            .export;
        assert_eq!((paused.paused, paused.last_paused_at), (true, paused_at));
        fixture.pass_micros(HOUR);
    }
    let now = Some(UtcTime(fixture.now().0));
    let run = BatchExports::new(catalog)
        .unpause(actor, place, id, true)
        .await
        .unwrap();
    assert_eq!(
        (run.view.export.paused, run.view.export.last_paused_at),
        (false, paused_at)
    );
    let missed = run.backfill.unwrap();
    assert_eq!((missed.start_at, missed.end_at), (paused_at, now));
    let again = BatchExports::new(catalog)
        .unpause(actor, place, id, true)
        .await
        .unwrap();
    assert_eq!(again.backfill, None, "it was not paused and missed nothing");

    let paused = |paused| BatchExportChange {
        paused: Some(paused),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog)
        .update(env.writer(), id, paused(true))
        .await
        .unwrap();
    assert_eq!(changed.export.last_paused_at, now);
    let said = BatchExportChange {
        last_paused_at: Some(Some(UtcTime(7))),
        ..paused(false)
    };
    let changed = BatchExports::new(catalog)
        .update(env.writer(), id, said)
        .await
        .unwrap()
        .export;
    assert_eq!(
        (changed.paused, changed.last_paused_at),
        (false, Some(UtcTime(7)))
    );
    let new = NewBatchExport {
        paused: true,
        ..new_export()
    };
    assert_eq!(env.make(new).await.unwrap().last_paused_at, now);
    let (actor, place) = (&COMMAND_LINE, env.foreign_place());
    let error = BatchExports::new(catalog).pause(actor, place, id).await;
    assert!(matches!(error, Err(ChangeError::NotFound { .. })));
    let error = BatchExports::new(catalog)
        .unpause(actor, place, id, false)
        .await;
    assert!(matches!(error, Err(ChangeError::NotFound { .. })));
}

async fn audit_entries_name_fields_and_never_their_values(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let id = env.made().await.id;
    let mut again = s3();
    again.kind = None;
    again.config = json!({ "prefix": "canary", "aws_secret_access_key": "canary" })
        .as_object()
        .unwrap()
        .clone();
    let change = BatchExportChange {
        destination: Some(again),
        ..BatchExportChange::default()
    };
    BatchExports::new(catalog)
        .update(env.writer(), id, change)
        .await
        .unwrap();
    let change = BatchExportChange {
        destination: Some(destination(DestinationType::NoOp, json!({}))),
        ..BatchExportChange::default()
    };
    BatchExports::new(catalog)
        .update(env.writer(), id, change)
        .await
        .unwrap();
    BatchExports::new(catalog)
        .pause(&fixture.actor, env.place(), id)
        .await
        .unwrap();
    BatchExports::new(catalog)
        .delete(&fixture.actor, env.place(), id)
        .await
        .unwrap();
    let entries = fixture.activity(ActivityScope::BatchExport).await;
    let fields: Vec<Vec<&str>> = entries
        .iter()
        .map(|entry| {
            entry
                .detail
                .changes
                .iter()
                .map(|change| change.field.as_str())
                .collect()
        })
        .collect();
    let expected: [&[&str]; 5] = [
        &[],
        &["paused", "last_paused_at"],
        &["destination__type", "destination__config"],
        &["destination__config"],
        &[
            "name",
            "team_id",
            "model",
            "destination__type",
            "destination__config",
            "interval",
            "paused",
        ],
    ];
    assert_eq!(fields, expected);
    let after = &entries[3].detail.changes[0].after;
    assert_eq!(after, &json!(["aws_secret_access_key", "prefix"]));
    let text = format!("{entries:?}");
    assert!(
        !text.contains("canary") && !text.contains("s3cret"),
        "{text}"
    );
}
