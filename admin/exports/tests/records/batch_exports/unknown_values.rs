//! Exports, and their backfills, with values of a later version: they delay no other.

use super::claims::{LONG, begun, claim, record};
use super::{COMMAND_LINE, TestEnv};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{RunStatus, UtcTime};
use millrace_exports::{
    BatchExports, ExportPlanner, ExportRuns, RunOutcome, RunRoundRobin, UnknownExportValue,
    set_features,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use uuid::Uuid;

on_both!(
    an_export_of_an_unknown_model_or_type_delays_no_other,
    a_run_that_cannot_be_claimed_delays_no_other_organization,
    an_export_of_an_unknown_model_stops_neither_lists_nor_rotations_nor_pauses,
    a_run_of_an_unknown_status_does_not_stop_its_export,
    a_claimed_run_that_is_cancelled_with_an_unknown_model_holds_its_export,
);

/// An hour after the creation of the exports.
const LATER: UtcTime = UtcTime(NOW.0 + super::HOUR);

async fn an_export_of_an_unknown_model_or_type_delays_no_other(database: TestDatabase) {
    for field in ["model", "destination_type"] {
        let database = TestDatabase::of(database.kind()).await;
        let env = TestEnv::open(&database).await;
        let catalog = &env.fixture.catalog;
        // It has a run to claim, a window to plan and a backfill to plan.
        let unknown = env.made().await.id;
        assert_eq!(
            ExportPlanner::new(catalog)
                .plan_windows(LATER)
                .await
                .unwrap(),
            1
        );
        env.backfill(unknown).await;
        let spoil = format!("UPDATE batch_exports SET {field} = 'Later', next_window_end = NULL");
        database.execute(&spoil).await.unwrap();

        let known = env.made().await.id;
        let its_backfill = env.backfill(known).await;
        assert_eq!(
            ExportPlanner::new(catalog)
                .plan_windows(LATER)
                .await
                .unwrap(),
            1
        );
        let claimed = claim(&env, LONG).await.unwrap();
        assert_eq!(claimed.export.id, known, "{field}");
        assert!(claim(&env, LONG).await.is_none(), "{field}");
        let open = env.backfills_to_plan().await;
        let open: Vec<Uuid> = open.iter().map(|open| open.backfill.id).collect();
        assert_eq!(open, [its_backfill], "{field}");
        let listed = BatchExports::new(catalog).unknown_values().await.unwrap();
        let expected = UnknownExportValue {
            export_id: unknown,
            field,
            value: "Later".to_owned(),
        };
        assert_eq!(listed, [expected]);
    }
}

async fn a_run_that_cannot_be_claimed_delays_no_other_organization(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let export_id = env.made().await.id;
    let backfill_id = env.backfill(export_id).await;
    begun(&env, export_id, Some(backfill_id), 0).await;
    let spoil = "UPDATE batch_export_backfills SET status = 'Later'";
    database.execute(spoil).await.unwrap();
    let other = env.foreign_export().await.id;
    begun(&env, other, None, 0).await;

    let mut round_robin = RunRoundRobin::new(4);
    let (mut claimed, mut failures_count) = (Vec::new(), 0);
    for _ in 0..2 {
        match ExportRuns::new(catalog).claim(LONG, &mut round_robin).await {
            Ok(run) => claimed.extend(run.map(|run| run.export.id)),
            Err(_) => failures_count += 1,
        }
    }
    assert_eq!((claimed.as_slice(), failures_count), (&[other][..], 1));
}

async fn an_export_of_an_unknown_model_stops_neither_lists_nor_rotations_nor_pauses(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let unknown = env.made().await.id;
    env.backfill(unknown).await;
    let spoil = "UPDATE batch_exports SET model = 'Later'";
    database.execute(spoil).await.unwrap();
    let known = env.made().await.id;

    let listed = BatchExports::new(catalog).list(place, ALL).await.unwrap();
    let ids: Vec<Uuid> = listed.rows.iter().map(|view| view.export.id).collect();
    assert_eq!((listed.count, ids), (1, vec![known]));
    BatchExports::new(catalog).reseal(&env.key).await.unwrap();
    let off = ["data_pipelines".to_owned()];
    let organization_id = env.fixture.organization_id;
    let set = set_features(catalog, &COMMAND_LINE, organization_id, &[], &off);
    set.await.unwrap();
    let paused = "SELECT CAST(COUNT(*) AS TEXT) FROM batch_exports WHERE paused";
    assert_eq!(database.first_column(paused).await.unwrap(), ["2"]);
    let open =
        "SELECT CAST(COUNT(*) AS TEXT) FROM batch_export_backfills WHERE finished_at IS NULL";
    assert_eq!(database.first_column(open).await.unwrap(), ["0"]);
}

async fn a_run_of_an_unknown_status_does_not_stop_its_export(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let export_id = env.made().await.id;
    begun(&env, export_id, None, 0).await;
    let spoil = "UPDATE batch_export_runs SET status = 'Later', finished_at = created_at";
    database.execute(spoil).await.unwrap();
    begun(&env, export_id, None, 1).await;
    let claimed = claim(&env, LONG).await.unwrap();
    let outcome = record(&env, &claimed, RunStatus::Failed).await;
    assert_eq!(outcome, RunOutcome::Kept);
    let listed = BatchExports::new(catalog).list(place, ALL).await.unwrap();
    let [view] = listed.rows.as_slice() else {
        panic!("{listed:?}");
    };
    let ordinals: Vec<i64> = view.latest_runs.iter().map(|run| run.ordinal).collect();
    assert_eq!(ordinals, [2]);
}

async fn a_claimed_run_that_is_cancelled_with_an_unknown_model_holds_its_export(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let export_id = env.made().await.id;
    let backfill_id = env.backfill(export_id).await;
    begun(&env, export_id, Some(backfill_id), 0).await;
    assert!(claim(&env, LONG).await.is_some());
    let spoil = "UPDATE batch_exports SET model = 'Later'";
    database.execute(spoil).await.unwrap();
    let off = ["data_pipelines".to_owned()];
    let organization_id = env.fixture.organization_id;
    let set = set_features(catalog, &COMMAND_LINE, organization_id, &[], &off);
    set.await.unwrap();
    for sql in [
        "SELECT CAST(COUNT(*) AS TEXT) FROM batch_exports WHERE paused AND busy_until > 0",
        "SELECT CAST(COUNT(*) AS TEXT) FROM batch_export_runs \
         WHERE status = 'Cancelled' AND claim IS NULL AND last_updated_at = finished_at",
    ] {
        assert_eq!(database.first_column(sql).await.unwrap(), ["1"], "{sql}");
    }
}
