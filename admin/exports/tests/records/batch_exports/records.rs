//! The records of exports.

use super::{COMMAND_LINE, HOUR, TestEnv, blame, destination, new_export, s3};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, CatalogLimits, ChangeError, DestinationType, ExportModel, PageRequest, UtcTime,
};
use millrace_exports::{
    BatchExportChange, BatchExports, ExportPlace, ExportRuns, NewBatchExport, NewRun,
};
use millrace_organizations::Projects;
use millrace_organizations::testing::fixture::ALL;
use millrace_rows::ProjectId;
use serde_json::json;
use uuid::Uuid;

on_both!(
    an_export_is_made_found_and_deleted,
    a_change_leaves_fields_that_it_does_not_name,
    bad_exports_are_refused_with_the_field_at_fault,
    an_export_belongs_to_a_project_of_its_organization,
    pausing_records_its_time,
    lists_are_in_pages_with_the_newest_runs,
    exports_are_deleted_with_their_project,
    audit_entries_name_fields_and_never_their_values,
    an_organization_has_a_limit_of_exports,
    a_configuration_over_its_size_limit_is_refused_with_its_largest_field,
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

type Spoil = fn(&mut NewBatchExport);

async fn bad_exports_are_refused_with_the_field_at_fault(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let table: [(Spoil, &str, &str); 5] = [
        (|new| new.name = " ".to_owned(), "name", "blank"),
        (|new| new.name = "x".repeat(401), "name", "max_length"),
        (
            |new| new.interval = "month".to_owned(),
            "interval",
            "invalid_choice",
        ),
        (
            |new| new.project_id = Some(ProjectId(999_999)),
            "team_id",
            "invalid_input",
        ),
        (
            |new| (new.start_at, new.end_at) = (Some(UtcTime(2)), Some(UtcTime(2))),
            "end_at",
            "invalid_input",
        ),
    ];
    for (spoil, field, code) in table {
        let mut new = new_export();
        spoil(&mut new);
        let error = env.make(new).await.unwrap_err();
        assert_eq!(blame(&error), (Some(field.to_owned()), code));
    }
    let made = env.made().await;
    let catalog = &env.fixture.catalog;
    let change = BatchExportChange {
        interval: Some("minute".to_owned()),
        ..BatchExportChange::default()
    };
    let error = BatchExports::new(catalog)
        .update(env.writer(), made.id, change)
        .await;
    assert_eq!(blame(&error.unwrap_err()).1, "invalid_choice");
}

async fn an_export_belongs_to_a_project_of_its_organization(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let foreign = NewBatchExport {
        project_id: Some(fixture.foreign_project_id),
        ..new_export()
    };
    let error = env.make(foreign).await.unwrap_err();
    assert_eq!(blame(&error), (Some("team_id".to_owned()), "invalid_input"));

    let new = millrace_organizations::NewProject::named("Second");
    let second = Projects::new(catalog)
        .create(&fixture.actor, fixture.organization_id, new)
        .await
        .unwrap();
    let in_second = ExportPlace {
        project_id: Some(ProjectId(second.id)),
        ..env.place()
    };
    let mut writer = env.writer();
    writer.place = in_second;
    // The project of the path wins over the body's.
    let new = NewBatchExport {
        project_id: Some(fixture.project_id),
        ..new_export()
    };
    let there = BatchExports::new(catalog)
        .create(writer, new)
        .await
        .unwrap()
        .export;
    assert_eq!(there.team_id, second.id);
    let here = env.made().await;
    let list = |place| BatchExports::new(catalog).list(place, ALL);
    assert_eq!(list(env.place()).await.unwrap().count, 2);
    assert_eq!(list(in_second).await.unwrap().count, 1);
    assert_eq!(list(env.foreign_place()).await.unwrap().count, 0);
    assert_eq!(
        BatchExports::new(catalog)
            .get(in_second, here.id)
            .await
            .unwrap(),
        None
    );
    assert!(
        BatchExports::new(catalog)
            .get(in_second, there.id)
            .await
            .unwrap()
            .is_some()
    );
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

async fn lists_are_in_pages_with_the_newest_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let mut ids = Vec::new();
    for runs in [12, 0, 3] {
        let id = env.made().await.id;
        ids.push(id);
        for window in 0..runs {
            let run = NewRun {
                backfill_id: None,
                data_interval_start: Some(UtcTime(window * HOUR)),
                data_interval_end: UtcTime((window + 1) * HOUR),
            };
            ExportRuns::new(catalog).begin(id, run).await.unwrap();
        }
        env.fixture.pass_micros(1);
    }
    let (counted, count) = catalog.counted();
    let list = BatchExports::new(&counted)
        .list(env.place(), ALL)
        .await
        .unwrap();
    assert_eq!(count.take().len(), 2);
    let found: Vec<_> = list.rows.iter().map(|seen| seen.export.id).collect();
    assert_eq!((list.count, &found), (3, &ids));
    let ordinals = |index: usize| -> Vec<i64> {
        list.rows[index]
            .latest_runs
            .iter()
            .map(|run| run.ordinal)
            .collect()
    };
    assert_eq!(ordinals(0), (3..=12).rev().collect::<Vec<_>>());
    assert_eq!((ordinals(1), ordinals(2)), (vec![], vec![3, 2, 1]));
    let page = PageRequest {
        limit: 1,
        offset: 2,
    };
    let last = BatchExports::new(catalog)
        .list(env.place(), page)
        .await
        .unwrap();
    assert_eq!((last.count, last.rows[0].export.id), (3, ids[2]));
    assert_eq!(
        last.rows[0],
        BatchExports::new(catalog)
            .get(env.place(), ids[2])
            .await
            .unwrap()
            .unwrap()
    );
}

async fn exports_are_deleted_with_their_project(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let id = env.made().await.id;
    let run = NewRun {
        backfill_id: None,
        data_interval_start: None,
        data_interval_end: UtcTime(1),
    };
    let run = ExportRuns::new(catalog).begin(id, run).await.unwrap();
    ExportRuns::new(catalog)
        .cancel(&fixture.actor, env.place(), id, run.id)
        .await
        .unwrap();
    Projects::new(catalog)
        .delete(&fixture.actor, fixture.organization_id, fixture.project_id)
        .await
        .unwrap();
    assert_eq!(
        BatchExports::new(catalog)
            .get(env.place(), id)
            .await
            .unwrap(),
        None
    );
    let error = env.make(new_export()).await.unwrap_err();
    assert_eq!(blame(&error), (Some("team_id".to_owned()), "required"));
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

async fn an_organization_has_a_limit_of_exports(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let limits = CatalogLimits {
        batch_exports_max: 2,
        ..CatalogLimits::default()
    };
    let catalog = env.fixture.catalog.clone().with_limits(limits);
    let make = async || {
        BatchExports::new(&catalog)
            .create(env.writer(), new_export())
            .await
    };
    let first = make().await.unwrap().export.id;
    make().await.unwrap();
    let error = make().await.unwrap_err();
    assert_eq!(blame(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("batch_exports_max"), "{error}");
    let deleted = BatchExports::new(&catalog).delete(&env.fixture.actor, env.place(), first);
    deleted.await.unwrap();
    make().await.unwrap();
}

async fn a_configuration_over_its_size_limit_is_refused_with_its_largest_field(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let with = |names: usize| {
        let names: Vec<String> = (0..names).map(|name| format!("{name:0>97}")).collect();
        let mut new = new_export();
        let list = json!(names);
        new.destination
            .config
            .insert("include_events".to_owned(), list);
        new
    };
    env.make(with(600)).await.unwrap();
    let error = env.make(with(700)).await.unwrap_err();
    let field = "destination__config__include_events".to_owned();
    assert_eq!(blame(&error), (Some(field), "max_length"));
    let mut query = with(550);
    query.hogql_query = Some("x".repeat(20_000));
    env.make(query).await.unwrap_err();
}
