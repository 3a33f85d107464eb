//! Tests of the worker on a real catalog and a real ClickHouse.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

millrace_embedded::engine_process!();

/// Runs `async fn name(TestDatabase, TestDatabase)` once on each kind of database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            use millrace_catalog::testing::{DatabaseKind, TestDatabase};

            async fn on(kind: DatabaseKind) {
                let other = TestDatabase::of(kind).await;
                super::$name(TestDatabase::of(kind).await, other).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                on(DatabaseKind::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                on(DatabaseKind::Postgres).await;
            }
        }
    )+ };
}

mod backlog_fairness;
mod fairness;
mod lease_renewer;
mod observability;
mod silent_catalog;
mod state;
mod test_env;
mod working;
