//! Databases for tests: a PostgreSQL cluster of the test binary's own, and empty databases.

mod database;
mod people;
mod postgres;
mod statements;

pub use database::{DatabaseKind, TestDatabase};
pub use postgres::TestPostgres;
pub use statements::StatementCount;
