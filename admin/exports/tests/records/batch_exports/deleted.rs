//! Runs, backfills and lines of deleted exports, which follow piece by piece.

use super::claims::claim;
use super::{COMMAND_LINE, HOUR, TestEnv, UNCLAIMED};
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{Catalog, Cleanup, LogLevel, RunStatus, UtcTime};
use millrace_exports::{
    BackfillRoundRobin, Backfills, BatchExports, ExportLogFilter, ExportLogs, ExportPlanner,
    ExportRuns, NewExportLog, NewRun, RunFilter, RunOutcome, RunProgress,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use millrace_organizations::{Organizations, Projects};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    a_deleted_export_is_gone_at_once_and_its_runs_follow_in_pieces,
    nobody_claims_plans_or_counts_runs_of_a_deleted_export,
    exports_are_deleted_with_their_project_and_their_organization_in_pieces,
    open_backfills_are_found_by_an_index,
);
on_both!(empty: exports_from_before_the_upgrade_are_kept_and_can_be_deleted);

/// Rows that one transaction deletes at most.
const ROWS_MAX: u64 = 2_000;
const ROWS: u64 = 5_000;
const TABLES: [&str; 3] = [
    "batch_export_logs",
    "batch_export_runs",
    "batch_export_backfills",
];

/// Gives an export a number of ended runs, each with a line, and as many lines of its own.
async fn fill(database: &TestDatabase, export_id: Uuid, rows: u64) {
    let (numbers, id) = (numbers(u32::try_from(rows).unwrap()), random_uuid(database));
    let export = database.uuid_literal(export_id);
    for statement in [
        format!(
            "INSERT INTO batch_export_runs (id, batch_export_id, ordinal, status, data_interval_end, \
             created_at, finished_at, last_updated_at) {numbers} \
             SELECT {id}, {export}, 1000 + i, 'Completed', i, i, i, i FROM n"
        ),
        format!(
            "INSERT INTO batch_export_logs (batch_export_id, run_id, logged_at, level, message) \
             SELECT batch_export_id, id, 1, 'INFO', 'of a run' FROM batch_export_runs \
             WHERE batch_export_id = {export}"
        ),
        format!(
            "INSERT INTO batch_export_logs (batch_export_id, logged_at, level, message) {numbers} \
             SELECT {export}, 1, 'INFO', 'of the export' FROM n"
        ),
        format!(
            "INSERT INTO batch_export_backfills (id, batch_export_id, status, finished_runs, created_at, \
             finished_at, last_updated_at) {numbers} \
             SELECT {id}, {export}, 'Completed', 0, i, i, i FROM n WHERE i <= 10"
        ),
    ] {
        database.execute(&statement).await.unwrap();
    }
}

async fn rows_of(database: &TestDatabase, export_id: Uuid) -> u64 {
    let (export, mut rows) = (database.uuid_literal(export_id), 0);
    for table in TABLES {
        let sql =
            format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table} WHERE batch_export_id = {export}");
        rows += database.first_column(&sql).await.unwrap()[0]
            .parse::<u64>()
            .unwrap();
    }
    rows
}

/// Deletes all that is left; answers the rows of each piece.
async fn pieces(catalog: &Catalog) -> Vec<u64> {
    let mut pieces = Vec::new();
    loop {
        match Cleanup::new(catalog).delete_leftovers().await.unwrap() {
            0 => return pieces,
            rows => pieces.push(rows),
        }
    }
}

async fn delete(env: &TestEnv, id: Uuid) {
    let (catalog, actor) = (&env.fixture.catalog, &env.fixture.actor);
    let deleted = BatchExports::new(catalog).delete(actor, env.place(), id);
    deleted.await.unwrap();
}

async fn a_deleted_export_is_gone_at_once_and_its_runs_follow_in_pieces(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, place) = (&env.fixture.catalog, env.place());
    let (id, other) = (env.made().await.id, env.made().await.id);
    fill(&database, id, ROWS).await;
    fill(&database, other, 20).await;
    let (before, of_other) = (
        rows_of(&database, id).await,
        rows_of(&database, other).await,
    );
    assert_eq!(before, 3 * ROWS + 10);
    assert!(!Cleanup::new(catalog).has_leftovers().await.unwrap());
    delete(&env, id).await;
    // Nothing but the row and the mark was written.
    assert_eq!(rows_of(&database, id).await, before);
    assert!(Cleanup::new(catalog).has_leftovers().await.unwrap());
    let found = BatchExports::new(catalog).get(place, id).await.unwrap();
    assert_eq!(found, None);
    let runs = ExportRuns::new(catalog).list(place, id, RunFilter::default(), ALL);
    assert!(runs.await.unwrap().is_none());
    let lines = ExportLogFilter::default();
    let lines = ExportLogs::new(catalog).list(place, id, &lines, ALL).await;
    assert!(lines.unwrap().is_none());
    let backfills = Backfills::new(catalog).list(place, id, ALL).await;
    assert!(backfills.unwrap().is_none());
    // Each piece is a transaction: others see exactly that many rows less.
    let mut left = before;
    for _ in 0..3 {
        let deleted = Cleanup::new(catalog).delete_leftovers().await.unwrap();
        assert!((1..=ROWS_MAX).contains(&deleted), "{deleted} rows");
        left -= deleted;
        assert_eq!(rows_of(&database, id).await, left);
    }
    // The next process goes on from the database alone.
    catalog.close().await.unwrap();
    let next = Catalog::open(database.url()).await.unwrap();
    let rest = pieces(&next).await;
    assert!(rest.iter().all(|rows| *rows <= ROWS_MAX), "{rest:?}");
    // The last one is the mark.
    assert_eq!(rest.iter().sum::<u64>(), left + 1);
    assert_eq!(rows_of(&database, id).await, 0);
    assert_eq!(rows_of(&database, other).await, of_other);
    assert!(!Cleanup::new(&next).has_leftovers().await.unwrap());
}

async fn nobody_claims_plans_or_counts_runs_of_a_deleted_export(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (planner, runs) = (ExportPlanner::new(catalog), ExportRuns::new(catalog));
    let id = env.made().await.id;
    let backfill = env.backfill(id).await;
    for (number, backfill_id) in [(0, None), (1, None), (0, Some(backfill))] {
        super::claims::begun(&env, id, backfill_id, number).await;
    }
    let claimed = claim(&env, Duration::ZERO).await.unwrap();
    env.fixture.pass_micros(9 * HOUR);
    assert!(planner.has_work().await.unwrap());
    assert!(planner.lag().await.unwrap() > Duration::ZERO);
    delete(&env, id).await;
    assert!(
        rows_of(&database, id).await >= 4,
        "the runs are there still"
    );
    assert!(!planner.has_work().await.unwrap());
    assert_eq!(planner.lag().await.unwrap(), Duration::ZERO);
    assert!(claim(&env, Duration::ZERO).await.is_none());
    assert!(env.backfills_to_plan().await.is_empty());
    // The process that made a run stops, and leaves nothing but a line that goes with the rest.
    let line = NewExportLog {
        level: LogLevel::Info,
        message: "late".to_owned(),
    };
    let written = ExportLogs::new(catalog).write(id, claimed.run.id, vec![line]);
    written.await.unwrap();
    let progress = RunProgress {
        status: RunStatus::Completed,
        records_completed: None,
        records_total_count: None,
        bytes_exported: None,
        cursor: None,
        latest_error: None,
        waits: false,
    };
    for claim in [claimed.run.claim, UNCLAIMED] {
        let recorded = runs.record(claimed.run.id, claim, progress.clone(), Duration::ZERO);
        assert_eq!(recorded.await.unwrap(), RunOutcome::Lost);
    }
    let window = (UtcTime(NOW.0 + HOUR), UtcTime(NOW.0 + 2 * HOUR));
    let begun = runs.begin_of_backfill(backfill, window).await;
    assert_eq!(begun.unwrap(), None);
    assert!(!Backfills::new(catalog).plan(backfill, 3).await.unwrap());
    assert!(!Backfills::new(catalog).fail(backfill, "why").await.unwrap());
    let run = NewRun {
        backfill_id: None,
        data_interval_start: None,
        data_interval_end: UtcTime(NOW.0 + 9 * HOUR),
    };
    assert!(runs.begin(id, run).await.is_err());
    pieces(catalog).await;
    assert_eq!(rows_of(&database, id).await, 0);
    let written = ExportLogs::new(catalog).write(
        id,
        claimed.run.id,
        vec![NewExportLog {
            level: LogLevel::Info,
            message: "too late".to_owned(),
        }],
    );
    assert!(written.await.is_err(), "the run is no more");
}

async fn exports_are_deleted_with_their_project_and_their_organization_in_pieces(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let (catalog, fixture) = (&env.fixture.catalog, &env.fixture);
    let (own, other) = (env.made().await, env.foreign_export().await);
    for id in [own.id, other.id] {
        fill(&database, id, 2_500).await;
    }
    let (of_own, of_other) = (
        rows_of(&database, own.id).await,
        rows_of(&database, other.id).await,
    );
    let deleted =
        Projects::new(catalog).delete(&fixture.actor, fixture.organization_id, fixture.project_id);
    deleted.await.unwrap();
    assert_eq!(rows_of(&database, own.id).await, of_own);
    let deleted = Organizations::new(catalog).delete(&COMMAND_LINE, fixture.foreign_id);
    deleted.await.unwrap();
    assert_eq!(rows_of(&database, other.id).await, of_other);
    let pieces = pieces(catalog).await;
    assert!(pieces.iter().all(|rows| *rows <= ROWS_MAX), "{pieces:?}");
    for id in [own.id, other.id] {
        assert_eq!(rows_of(&database, id).await, 0);
    }
}

/// Rows of a catalog about exports, but for the exports' own rows, which have more columns.
async fn of_exports(database: &TestDatabase) -> Vec<String> {
    let mut rows = database.contents().await.unwrap();
    let is_one = |row: &String| {
        let mut tables = TABLES.iter();
        tables.any(|table| row.starts_with(&format!("{table} ")))
    };
    rows.retain(is_one);
    rows
}

/// Organization with a project, an export, and a backfill and a run of it, as they were before the
/// upgrade.
fn rows_of_before(own: &str, run: &str) -> [String; 5] {
    [
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, members_can_write_pipelines, plugins_access_level, \
             disabled_features) VALUES ({own}, 'Acme', 'acme', 1, 1, false, true, 9, '[]')"
        ),
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token_imported, anonymize_ips, \
             timezone, created_at, updated_at) VALUES ({own}, {own}, 'P', false, false, 'UTC', 1, 1)"
        ),
        format!(
            "INSERT INTO batch_exports (id, organization_id, team_id, name, model, destination_type, \
             destination_config, destination_secrets, interval, paused, runs_count, created_at, \
             last_updated_at) VALUES ({own}, {own}, 1, 'E', 'events', 'NoOp', '{{}}', '{{}}', 'hour', \
             true, 0, 1, 1)"
        ),
        format!(
            "INSERT INTO batch_export_backfills (id, batch_export_id, start_at, end_at, status, total_runs, \
             finished_runs, created_at, finished_at, last_updated_at, message, asked_for) \
             VALUES ({run}, {own}, 1, 2, 'Running', 3, 4, 5, NULL, 7, 'm', '{{}}')"
        ),
        format!(
            "INSERT INTO batch_export_runs (id, batch_export_id, ordinal, backfill_id, status, \
             data_interval_start, data_interval_end, records_completed, records_total_count, cursor, \
             latest_error, created_at, finished_at, last_updated_at, bytes_exported, claim, \
             claim_lapses_at, next_try_at, failures_count) VALUES ({run}, {own}, 1, {run}, 'Running', 2, \
             3, 4, 5, 'c', 'e', 6, 7, 8, 9, {run}, 10, 11, 12)"
        ),
    ]
}

async fn exports_from_before_the_upgrade_are_kept_and_can_be_deleted(database: TestDatabase) {
    let old = database.open_before("m0042_deleted_exports").await.unwrap();
    old.close().await.unwrap();
    let id = Uuid::from_u128(0x0190_f5fe_4e1a_7c3f_8a1b_2c3d_4e5f_6071);
    let (own, run) = (
        database.uuid_literal(id),
        database.uuid_literal(Uuid::from_u128(7)),
    );
    for row in rows_of_before(&own, &run) {
        database.execute(&row).await.unwrap();
    }
    fill(&database, id, 10).await;
    let before = of_exports(&database).await;
    // Eleven runs, a line of each, ten lines of the export, and eleven backfills.
    assert_eq!(before.len(), 11 + 11 + 10 + 11);
    let catalog = Catalog::open(database.url()).await.unwrap();
    assert_eq!(of_exports(&database).await, before);
    // Unique rows stay unique.
    let twice = "INSERT INTO batch_export_runs (id, batch_export_id, ordinal, status, data_interval_end, \
                 created_at, last_updated_at) SELECT";
    for columns in [
        // The same number, the same window by the clock.
        "batch_export_id, ordinal, status, 99",
        "batch_export_id, 98, status, data_interval_end",
    ] {
        let again = format!(
            "{twice} {}, {columns}, 1, 1 FROM batch_export_runs WHERE backfill_id IS NULL LIMIT 1",
            random_uuid(&database)
        );
        assert!(database.execute(&again).await.is_err(), "{columns}");
    }
    // Rows still go with their parents among themselves, and new lines have numbers of their own.
    let of_run = format!("DELETE FROM batch_export_backfills WHERE id = {run}");
    database.execute(&of_run).await.unwrap();
    assert_eq!(of_exports(&database).await.len(), before.len() - 3);
    let line = format!(
        "INSERT INTO batch_export_logs (batch_export_id, logged_at, level, message) \
         VALUES ({own}, 1, 'INFO', 'new')"
    );
    database.execute(&line).await.unwrap();
    // Hand-written SQL is marked like everything else.
    database.execute("DELETE FROM organizations").await.unwrap();
    assert_eq!(of_exports(&database).await.len(), before.len() - 2);
    pieces(&catalog).await;
    assert!(of_exports(&database).await.is_empty());
}

async fn open_backfills_are_found_by_an_index(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (counted, count) = env.fixture.catalog.counted();
    let round_robin = BackfillRoundRobin::default();
    let next = Backfills::new(&counted)
        .next_to_plan(&round_robin, &[])
        .await;
    assert!(next.unwrap().is_none());
    let statements = count.take();
    assert_eq!(statements.len(), 1, "{statements:?}");
    if !database.is_sqlite() {
        return;
    }
    let plan = statements[0].replace('?', "1");
    let plan = database.sqlite_plan(&plan).await.unwrap().join("\n");
    assert!(plan.contains("batch_export_backfills_open"), "{plan}");
}
