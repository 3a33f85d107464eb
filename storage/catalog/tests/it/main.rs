//! The catalog on real databases.
//!
//! Rules: every test of behaviour runs on SQLite and on PostgreSQL, through `on_both!`; one
//! database per test; time is a `TestClock`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

/// Runs `async fn name(TestDatabase)` once on each kind of database.
macro_rules! on_both {
    ($($name:ident),+ $(,)?) => { $(
        mod $name {
            use millrace_catalog::testing::TestDatabase;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn sqlite() {
                super::$name(TestDatabase::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn postgres() {
                super::$name(TestDatabase::postgres().await).await;
            }
        }
    )+ };
}

mod activity;
mod batch_exports;
mod bootstrap;
mod crowd;
mod domains;
mod fixture;
mod historical_migrations;
mod idempotency;
mod ingest_nodes;
mod invites;
mod lists;
mod lock_order;
mod members;
mod open;
mod organization_changes;
mod organizations;
mod own_keys;
mod personal_keys;
mod plugins;
mod project_keys;
mod projects;
mod proxy_records;
mod roles;
mod signup;
mod stand;
mod upgrade;
mod writers;
