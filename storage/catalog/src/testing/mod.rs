//! Databases for tests: a PostgreSQL cluster of the test binary's own, databases with the schema
//! and without, and [`on_both!`], which runs a test on each kind.

mod connect;
mod database;
mod held;
mod hostile_json;
pub mod lists;
mod on_both;
mod people;
mod plugin_configs;
mod postgres;
mod seed;
mod statements;

pub use crate::on_both;
pub use connect::{connected, execute};
pub use database::{DatabaseKind, TestDatabase};
pub use held::{holding, until_one_waits};
pub use hostile_json::nested_markers;
pub use on_both::{on_empty, on_schema};
pub use postgres::TestPostgres;
pub use seed::{latest_runs, numbers, random_uuid};
pub use statements::StatementCount;
