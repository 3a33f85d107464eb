//! Tests of runs that are cut off, and tried again.

use super::fixture::{Fixture, refusal};
use super::gateway::GatewayFault;
use crate::rows::{delivered, lines, row, run, written};
use millrace_exports::ExportErrorKind;

const COUNT: &str = "SELECT count(*) FROM events";
const RUNS: &str = "SELECT count(*) FROM events_millrace_runs";

#[tokio::test]
async fn a_run_that_ends_before_its_commit_leaves_nothing() {
    let cut_before = [
        "CREATE TABLE",
        "CREATE TEMPORARY",
        "BEGIN",
        "INSERT INTO \"public\".\"events\"",
        "INSERT INTO \"public\".\"events_millrace_runs\"",
        "COMMIT",
    ];
    for statement in cut_before {
        let fixture = Fixture::new().await;
        for (hour, destination) in fixture.all().await.into_iter().enumerate() {
            let run = run(hour as i64);
            let lines = lines((0..100).map(row));
            fixture
                .execute("DROP TABLE IF EXISTS events, events_millrace_runs")
                .await;
            fixture.gateway.inject(GatewayFault::CutBefore(statement));
            let error = refusal(delivered(&*destination, &run, &lines).await);
            assert_eq!(
                error.kind,
                ExportErrorKind::Retryable,
                "{statement}: {error}"
            );
            assert!(fixture.gateway.has_happened(), "{statement}");
            let tables = "SELECT count(*) FROM pg_tables WHERE tablename = 'events'";
            if fixture.text(tables).await == "1" {
                assert_eq!(fixture.text(COUNT).await, "0", "{statement}");
            }
            let outcome = delivered(&*destination, &run, &lines).await.unwrap();
            assert_eq!(outcome.rows, Some(100), "{statement}");
            assert_eq!(fixture.text(COUNT).await, "100", "{statement}");
            assert_eq!(fixture.text(RUNS).await, "1", "{statement}");
        }
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_out() {
    let fixture = Fixture::new().await;
    for (hour, destination) in fixture.all().await.into_iter().enumerate() {
        fixture
            .execute("DROP TABLE IF EXISTS events, events_millrace_runs")
            .await;
        let lines = lines((0..100).map(row));
        fixture.gateway.inject(GatewayFault::CutAfter("COMMIT"));
        let outcome = delivered(&*destination, &run(hour as i64), &lines)
            .await
            .unwrap();
        assert!(fixture.gateway.has_happened());
        assert_eq!(outcome.rows, Some(100));
        assert_eq!(fixture.text(COUNT).await, "100");
        assert_eq!(fixture.text(RUNS).await, "1");
    }
}

#[tokio::test]
async fn a_delivery_that_is_dropped_or_aborted_leaves_nothing() {
    let fixture = Fixture::new().await;
    for destination in fixture.all().await {
        let lines = lines((0..100).map(row));
        drop(written(&*destination, &run(0), &lines).await.unwrap());
        written(&*destination, &run(0), &lines)
            .await
            .unwrap()
            .abort()
            .await;
        assert_eq!(fixture.text(COUNT).await, "0");
        assert_eq!(fixture.text(RUNS).await, "0");
        let stages = "SELECT count(*) FROM pg_tables WHERE tablename LIKE '%stage%' \
             AND schemaname NOT LIKE 'pg_temp%'";
        assert_eq!(fixture.text(stages).await, "0");
    }
}

#[tokio::test]
async fn a_backend_that_is_killed_fails_the_run_and_the_next_try_succeeds() {
    let fixture = Fixture::new().await;
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE application_name = 'millrace' AND datname = current_database()";
    for destination in fixture.all().await {
        let lines = lines((0..100).map(row));
        let delivery = written(&*destination, &run(0), &lines).await.unwrap();
        assert_eq!(fixture.text(kill).await, "1");
        let error = refusal(delivery.publish().await);
        assert_eq!(error.kind, ExportErrorKind::Retryable, "{error}");
        assert_eq!(fixture.text(COUNT).await, "0");
        delivered(&*destination, &run(0), &lines).await.unwrap();
        assert_eq!(fixture.text(COUNT).await, "100");
        fixture
            .execute("TRUNCATE events, events_millrace_runs")
            .await;
    }
}

#[tokio::test]
async fn fewer_rows_than_were_read_are_never_published() {
    let fixture = Fixture::new().await;
    for destination in fixture.all().await {
        for (rows, said) in [(2, 3), (3, 2)] {
            let mut delivery = destination.begin(&run(0), 1).await.unwrap();
            delivery
                .write(lines((0..rows).map(row)).into())
                .await
                .unwrap();
            let error = refusal(delivery.end_part(said).await);
            assert_eq!(error.kind, ExportErrorKind::Retryable);
        }
        let mut delivery = destination.begin(&run(0), 1).await.unwrap();
        delivery.write("{\"uuid\":".into()).await.unwrap();
        refusal(delivery.end_part(0).await);
    }
}
