//! Exports of a project: places, lists, deletion.

use crate::batch_exports::{TestEnv, hourly_run, new_export, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PageRequest, UtcTime};
use millrace_exports::{BatchExports, ExportPlace, ExportRuns, NewBatchExport, NewRun};
use millrace_organizations::Projects;
use millrace_organizations::testing::fixture::ALL;
use millrace_rows::ProjectId;

on_both!(
    an_export_belongs_to_a_project_of_its_organization,
    lists_are_in_pages_with_the_newest_runs,
    exports_are_deleted_with_their_project,
);

async fn an_export_belongs_to_a_project_of_its_organization(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (fixture, catalog) = (&env.fixture, &env.fixture.catalog);
    let foreign = NewBatchExport {
        project_id: Some(fixture.foreign_project_id),
        ..new_export()
    };
    let error = env.make(foreign).await.unwrap_err();
    assert_eq!(
        violation(&error),
        (Some("team_id".to_owned()), "invalid_input")
    );

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

async fn lists_are_in_pages_with_the_newest_runs(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let mut ids = Vec::new();
    for runs in [12, 0, 3] {
        let id = env.made().await.id;
        ids.push(id);
        for window in 0..runs {
            env.begin_run(id, hourly_run(window, None)).await;
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
    let run_id = env.begin_run(id, run).await;
    ExportRuns::new(catalog)
        .cancel(&fixture.actor, env.place(), id, run_id)
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
    assert_eq!(violation(&error), (Some("team_id".to_owned()), "required"));
}
