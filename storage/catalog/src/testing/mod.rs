//! Databases for tests: a PostgreSQL cluster of the test binary's own, and empty databases.

mod database;
mod postgres;

pub use database::TestDatabase;
pub use postgres::TestPostgres;
