//! Log lines of exports and their runs.

use super::{TestEnv, UNCLAIMED};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{LogLevel, PageRequest, RunStatus, UtcTime};
use millrace_exports::{
    BatchExports, ExportLogFilter, ExportLogs, ExportRuns, NewExportLog, NewRun, RunProgress,
};
use millrace_organizations::testing::fixture::{ALL, NOW};
use std::time::Duration;
use uuid::Uuid;

on_both!(
    lines_are_filtered_and_listed_newest_first,
    changes_by_people_leave_log_lines,
    other_organizations_read_no_log_lines,
    a_message_that_is_too_long_is_truncated,
);

fn line(level: LogLevel, message: &str) -> NewExportLog {
    NewExportLog {
        level,
        message: message.to_owned(),
    }
}

/// Export with a run that has five lines, one per microsecond.
async fn talkative(env: &TestEnv) -> (Uuid, Uuid) {
    let catalog = &env.fixture.catalog;
    let export_id = env.made().await.id;
    let new = NewRun {
        backfill_id: None,
        data_interval_start: None,
        data_interval_end: UtcTime(1),
    };
    let run_id = env.begin_run(export_id, new).await;
    for line in [
        line(LogLevel::Debug, "one"),
        line(LogLevel::Info, "Two 50%_"),
        line(LogLevel::Warning, "three"),
        line(LogLevel::Error, "FOUR"),
        line(LogLevel::Info, "Ünf"),
    ] {
        ExportLogs::new(catalog)
            .write(export_id, run_id, vec![line])
            .await
            .unwrap();
        env.fixture.pass_micros(1);
    }
    (export_id, run_id)
}

/// Filters, and the lines that remain.
fn filters(run_id: Uuid) -> Vec<(ExportLogFilter, Vec<&'static str>)> {
    let at = |micros| Some(UtcTime(NOW.0 + micros));
    let all = ExportLogFilter::default;
    let search = |text: &str| ExportLogFilter {
        search: Some(text.to_owned()),
        ..all()
    };
    vec![
        (all(), vec!["Ünf", "FOUR", "three", "Two 50%_", "one"]),
        (
            ExportLogFilter {
                run_id: Some(run_id),
                ..all()
            },
            vec!["Ünf", "FOUR", "three", "Two 50%_", "one"],
        ),
        (
            ExportLogFilter {
                run_id: Some(Uuid::now_v7()),
                ..all()
            },
            vec![],
        ),
        (
            ExportLogFilter {
                after: at(2),
                ..all()
            },
            vec!["Ünf", "FOUR"],
        ),
        (
            ExportLogFilter {
                before: at(2),
                ..all()
            },
            vec!["Two 50%_", "one"],
        ),
        (
            ExportLogFilter {
                levels: vec![LogLevel::Error, LogLevel::Debug],
                ..all()
            },
            vec!["FOUR", "one"],
        ),
        (search("four"), vec!["FOUR"]),
        (search("ONE"), vec!["one"]),
        (search("50%_"), vec!["Two 50%_"]),
        (search("%"), vec!["Two 50%_"]),
        (search("Ün"), vec!["Ünf"]),
        (search("ün"), vec![]),
        (search("' OR 1=1"), vec![]),
    ]
}

async fn lines_are_filtered_and_listed_newest_first(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (export_id, run_id) = talkative(&env).await;
    let table = filters(run_id);
    for (filter, expected) in table {
        let found = ExportLogs::new(catalog)
            .list(env.place(), export_id, &filter, ALL)
            .await;
        let found = found.unwrap().unwrap();
        let messages: Vec<&str> = found
            .rows
            .iter()
            .map(|line| line.message.as_str())
            .collect();
        assert_eq!(
            (found.count, messages),
            (expected.len() as u64, expected),
            "{filter:?}"
        );
    }
    let page = PageRequest {
        limit: 2,
        offset: 3,
    };
    let (counted, count) = catalog.counted();
    let found = ExportLogs::new(&counted)
        .list(env.place(), export_id, &ExportLogFilter::default(), page)
        .await;
    let found = found.unwrap().unwrap();
    assert_eq!(
        (found.count, found.rows.len(), count.take().len()),
        (5, 2, 3)
    );
}

async fn changes_by_people_leave_log_lines(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let (catalog, actor, place) = (&env.fixture.catalog, &env.fixture.actor, env.place());
    let (export_id, run_id) = talkative(&env).await;
    ExportRuns::new(catalog)
        .cancel(actor, place, export_id, run_id)
        .await
        .unwrap();
    BatchExports::new(catalog)
        .pause(actor, place, export_id)
        .await
        .unwrap();
    BatchExports::new(catalog)
        .pause(actor, place, export_id)
        .await
        .unwrap();
    env.fixture.pass_micros(1);
    BatchExports::new(catalog)
        .unpause(actor, place, export_id, true)
        .await
        .unwrap();
    let filter = ExportLogFilter {
        after: Some(UtcTime(NOW.0 + 4)),
        ..ExportLogFilter::default()
    };
    let found = ExportLogs::new(catalog)
        .list(place, export_id, &filter, ALL)
        .await
        .unwrap()
        .unwrap();
    let runs: Vec<_> = found.rows.iter().map(|line| line.run_id).collect();
    // Two lines are about the backfill: that it was asked for, and that no window has ended.
    assert_eq!(runs, [None, None, None, None, Some(run_id)]);
}

async fn other_organizations_read_no_log_lines(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (export_id, run_id) = talkative(&env).await;
    let filter = ExportLogFilter::default();
    let foreign = ExportLogs::new(catalog)
        .list(env.foreign_place(), export_id, &filter, ALL)
        .await;
    assert_eq!(foreign.unwrap(), None);
    ExportLogs::new(catalog)
        .write(export_id, run_id, Vec::new())
        .await
        .unwrap();
    let gone =
        ExportLogs::new(catalog).write(export_id, Uuid::now_v7(), vec![line(LogLevel::Info, "a")]);
    gone.await.unwrap_err();
}

/// Case of a destination with long answers: lists have ten errors of each export.
async fn a_message_that_is_too_long_is_truncated(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let catalog = &env.fixture.catalog;
    let (export_id, run_id) = talkative(&env).await;
    let long = "ü".repeat(1 << 20);
    let lines = vec![line(LogLevel::Error, &long)];
    let written = ExportLogs::new(catalog).write(export_id, run_id, lines);
    written.await.unwrap();
    let failed = RunProgress {
        status: RunStatus::Failed,
        records_completed: None,
        records_total_count: None,
        bytes_exported: None,
        cursor: None,
        latest_error: Some(long),
        waits: false,
    };
    let recorded = ExportRuns::new(catalog).record(run_id, UNCLAIMED, failed, Duration::ZERO);
    recorded.await.unwrap();
    let run = ExportRuns::new(catalog)
        .get(env.place(), export_id, run_id)
        .await;
    let error = run.unwrap().unwrap().latest_error.unwrap();
    let filter = ExportLogFilter {
        search: Some("üü".to_owned()),
        ..ExportLogFilter::default()
    };
    let lines = ExportLogs::new(catalog).list(env.place(), export_id, &filter, ALL);
    let lines = lines.await.unwrap().unwrap().rows;
    let expected = format!("{}… (2097152 bytes)", "ü".repeat(2_048));
    assert_eq!(error, expected);
    assert_eq!(lines[0].message, expected);
}
