//! The records of exports.

use super::{COMMAND_LINE, HOUR, Stand, blame, destination, new_export, s3};
use crate::fixture::ALL;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    ActivityScope, BatchExportChange, CatalogLimits, ChangeError, DestinationType, ExportModel,
    ExportPlace, NewBatchExport, NewRun, PageRequest, UtcTime,
};
use millrace_rows::TeamId;
use serde_json::json;
use uuid::Uuid;

on_both!(
    an_export_is_made_found_and_deleted,
    what_is_given_changes_and_the_rest_stays,
    bad_exports_are_blamed,
    an_export_belongs_to_a_project_of_its_organization,
    pausing_remembers_when,
    lists_are_in_pages_with_the_newest_runs,
    exports_go_with_their_project,
    entries_name_fields_and_never_their_values,
    an_organization_has_so_many_exports_and_no_more,
    a_configuration_has_a_limit_and_the_largest_field_is_blamed,
);

async fn what_is_given_changes_and_the_rest_stays(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let made = stand.made().await;
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
    let changed = catalog
        .update_batch_export(stand.writer(), made.id, change)
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
    let cleared = catalog
        .update_batch_export(stand.writer(), made.id, cleared)
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
    let same = catalog
        .update_batch_export(stand.writer(), made.id, nothing)
        .await
        .unwrap();
    assert_eq!(same.export.last_updated_at, cleared.last_updated_at);
}

async fn an_export_is_made_found_and_deleted(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let made = stand.made().await;
    assert_eq!(
        (made.team_id, made.interval.as_str()),
        (fixture.team_id.0, "hour")
    );
    assert!(!made.paused && made.last_paused_at.is_none() && made.runs_count == 0);
    let seen = catalog
        .batch_export(stand.place(), made.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&seen.export, seen.latest_runs.len()), (&made, 0));
    assert_eq!(
        catalog
            .batch_export(stand.foreign_place(), made.id)
            .await
            .unwrap(),
        None
    );

    let (actor, nothing) = (&fixture.actor, BatchExportChange::default());
    let foreign = catalog
        .delete_batch_export(&COMMAND_LINE, stand.foreign_place(), made.id)
        .await;
    assert!(matches!(foreign, Err(ChangeError::NotFound { .. })));
    catalog
        .delete_batch_export(actor, stand.place(), made.id)
        .await
        .unwrap();
    for id in [made.id, Uuid::now_v7()] {
        assert_eq!(catalog.batch_export(stand.place(), id).await.unwrap(), None);
        let error = catalog
            .update_batch_export(stand.writer(), id, nothing.clone())
            .await;
        assert!(matches!(error, Err(ChangeError::NotFound { .. })));
        let error = catalog.delete_batch_export(actor, stand.place(), id).await;
        assert!(matches!(error, Err(ChangeError::NotFound { .. })));
    }
}

type Spoil = fn(&mut NewBatchExport);

async fn bad_exports_are_blamed(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let table: [(Spoil, &str, &str); 5] = [
        (|new| new.name = " ".to_owned(), "name", "blank"),
        (|new| new.name = "x".repeat(401), "name", "max_length"),
        (
            |new| new.interval = "month".to_owned(),
            "interval",
            "invalid_choice",
        ),
        (
            |new| new.team_id = Some(TeamId(999_999)),
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
        let error = stand.make(new).await.unwrap_err();
        assert_eq!(blame(&error), (Some(field.to_owned()), code));
    }
    let made = stand.made().await;
    let catalog = &stand.fixture.catalog;
    let change = BatchExportChange {
        interval: Some("minute".to_owned()),
        ..BatchExportChange::default()
    };
    let error = catalog
        .update_batch_export(stand.writer(), made.id, change)
        .await;
    assert_eq!(blame(&error.unwrap_err()).1, "invalid_choice");
}

async fn an_export_belongs_to_a_project_of_its_organization(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let foreign = NewBatchExport {
        team_id: Some(fixture.foreign_team_id),
        ..new_export()
    };
    let error = stand.make(foreign).await.unwrap_err();
    assert_eq!(blame(&error), (Some("team_id".to_owned()), "invalid_input"));

    let new = millrace_catalog::NewProject::named("Second");
    let second = catalog
        .create_project(&fixture.actor, fixture.organization_id, new)
        .await
        .unwrap();
    let in_second = ExportPlace {
        team_id: Some(TeamId(second.id)),
        ..stand.place()
    };
    let mut writer = stand.writer();
    writer.place = in_second;
    // The place of the path wins over the body.
    let new = NewBatchExport {
        team_id: Some(fixture.team_id),
        ..new_export()
    };
    let there = catalog
        .create_batch_export(writer, new)
        .await
        .unwrap()
        .export;
    assert_eq!(there.team_id, second.id);
    let here = stand.made().await;
    let list = |place| catalog.list_batch_exports(place, ALL);
    assert_eq!(list(stand.place()).await.unwrap().count, 2);
    assert_eq!(list(in_second).await.unwrap().count, 1);
    assert_eq!(list(stand.foreign_place()).await.unwrap().count, 0);
    assert_eq!(
        catalog.batch_export(in_second, here.id).await.unwrap(),
        None
    );
    assert!(
        catalog
            .batch_export(in_second, there.id)
            .await
            .unwrap()
            .is_some()
    );
}

async fn pausing_remembers_when(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let (actor, place) = (&fixture.actor, stand.place());
    let id = stand.made().await.id;
    fixture.pass_micros(HOUR);
    let paused_at = Some(UtcTime(fixture.now().0));
    for _ in 0..2 {
        let paused = catalog
            .pause_batch_export(actor, place, id)
            .await
            .unwrap()
            .export;
        assert_eq!((paused.paused, paused.last_paused_at), (true, paused_at));
        fixture.pass_micros(HOUR);
    }
    let now = Some(UtcTime(fixture.now().0));
    let run = catalog
        .unpause_batch_export(actor, place, id, true)
        .await
        .unwrap();
    assert_eq!(
        (run.seen.export.paused, run.seen.export.last_paused_at),
        (false, paused_at)
    );
    let missed = run.backfill.unwrap();
    assert_eq!((missed.start_at, missed.end_at), (paused_at, now));
    let again = catalog
        .unpause_batch_export(actor, place, id, true)
        .await
        .unwrap();
    assert_eq!(again.backfill, None, "it was not paused and missed nothing");

    let paused = |paused| BatchExportChange {
        paused: Some(paused),
        ..BatchExportChange::default()
    };
    let changed = catalog
        .update_batch_export(stand.writer(), id, paused(true))
        .await
        .unwrap();
    assert_eq!(changed.export.last_paused_at, now);
    let said = BatchExportChange {
        last_paused_at: Some(Some(UtcTime(7))),
        ..paused(false)
    };
    let changed = catalog
        .update_batch_export(stand.writer(), id, said)
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
    assert_eq!(stand.make(new).await.unwrap().last_paused_at, now);
    let (actor, place) = (&COMMAND_LINE, stand.foreign_place());
    let error = catalog.pause_batch_export(actor, place, id).await;
    assert!(matches!(error, Err(ChangeError::NotFound { .. })));
    let error = catalog.unpause_batch_export(actor, place, id, false).await;
    assert!(matches!(error, Err(ChangeError::NotFound { .. })));
}

async fn lists_are_in_pages_with_the_newest_runs(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let catalog = &stand.fixture.catalog;
    let mut ids = Vec::new();
    for runs in [12, 0, 3] {
        let id = stand.made().await.id;
        ids.push(id);
        for window in 0..runs {
            let run = NewRun {
                backfill_id: None,
                data_interval_start: Some(UtcTime(window * HOUR)),
                data_interval_end: UtcTime((window + 1) * HOUR),
            };
            catalog.begin_export_run(id, run).await.unwrap();
        }
        stand.fixture.pass_micros(1);
    }
    let (counted, count) = catalog.counted();
    let list = counted
        .list_batch_exports(stand.place(), ALL)
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
    let last = catalog
        .list_batch_exports(stand.place(), page)
        .await
        .unwrap();
    assert_eq!((last.count, last.rows[0].export.id), (3, ids[2]));
    assert_eq!(
        last.rows[0],
        catalog
            .batch_export(stand.place(), ids[2])
            .await
            .unwrap()
            .unwrap()
    );
}

async fn exports_go_with_their_project(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let id = stand.made().await.id;
    let run = NewRun {
        backfill_id: None,
        data_interval_start: None,
        data_interval_end: UtcTime(1),
    };
    let run = catalog.begin_export_run(id, run).await.unwrap();
    catalog
        .cancel_export_run(&fixture.actor, stand.place(), id, run.id)
        .await
        .unwrap();
    catalog
        .delete_project(&fixture.actor, fixture.organization_id, fixture.team_id)
        .await
        .unwrap();
    assert_eq!(catalog.batch_export(stand.place(), id).await.unwrap(), None);
    let error = stand.make(new_export()).await.unwrap_err();
    assert_eq!(blame(&error), (Some("team_id".to_owned()), "required"));
}

async fn entries_name_fields_and_never_their_values(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let (fixture, catalog) = (&stand.fixture, &stand.fixture.catalog);
    let id = stand.made().await.id;
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
    catalog
        .update_batch_export(stand.writer(), id, change)
        .await
        .unwrap();
    let change = BatchExportChange {
        destination: Some(destination(DestinationType::NoOp, json!({}))),
        ..BatchExportChange::default()
    };
    catalog
        .update_batch_export(stand.writer(), id, change)
        .await
        .unwrap();
    catalog
        .pause_batch_export(&fixture.actor, stand.place(), id)
        .await
        .unwrap();
    catalog
        .delete_batch_export(&fixture.actor, stand.place(), id)
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

async fn an_organization_has_so_many_exports_and_no_more(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let limits = CatalogLimits {
        batch_exports_max: 2,
        ..CatalogLimits::default()
    };
    let catalog = stand.fixture.catalog.clone().with_limits(limits);
    let make = async || {
        catalog
            .create_batch_export(stand.writer(), new_export())
            .await
    };
    let first = make().await.unwrap().export.id;
    make().await.unwrap();
    let error = make().await.unwrap_err();
    assert_eq!(blame(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("batch_exports_max"), "{error}");
    let deleted = catalog.delete_batch_export(&stand.fixture.actor, stand.place(), first);
    deleted.await.unwrap();
    make().await.unwrap();
}

async fn a_configuration_has_a_limit_and_the_largest_field_is_blamed(database: TestDatabase) {
    let stand = Stand::open(&database).await;
    let with = |names: usize| {
        let names: Vec<String> = (0..names).map(|name| format!("{name:0>97}")).collect();
        let mut new = new_export();
        let list = json!(names);
        new.destination
            .config
            .insert("include_events".to_owned(), list);
        new
    };
    stand.make(with(600)).await.unwrap();
    let error = stand.make(with(700)).await.unwrap_err();
    let field = "destination__config__include_events".to_owned();
    assert_eq!(blame(&error), (Some(field), "max_length"));
    let mut query = with(550);
    query.hogql_query = Some("x".repeat(20_000));
    stand.make(query).await.unwrap_err();
}
