//! Operator's commands. They need no API key: access to the data folder or the database is enough.

pub mod backup;
pub mod clickhouse_users;
pub mod credentials;
pub mod historical_migrations;
pub mod import;
pub mod invites;
pub mod keys;
pub mod log;
pub mod members;
mod next_step;
pub mod nodes;
pub mod organizations;
pub mod purge;
pub mod rejected_events;
pub mod secrets;
mod table;

pub use millrace_import::count::counted;
pub use next_step::{Invocation, quoted};

use crate::config::Config;
use crate::connect;
use crate::output;
use anyhow::Context;

/// Runs `millrace migrate`: migrates both schemas now, not at the next start.
///
/// # Errors
/// When a database cannot be reached or refuses.
pub fn migrate(config: &Config) -> anyhow::Result<()> {
    connect::block_on(async {
        // A database in PostgreSQL exists before its tables; a file of SQLite is created by a
        // server only.
        let catalog = match config.database_url.starts_with("sqlite:") {
            true => connect::catalog(config).await?,
            false => connect::catalog_or_create(config).await?,
        };
        catalog.close().await?;
        let migrated = connect::clickhouse(config)?.migrate().await;
        migrated
            .map_err(|error| match error.query_error() {
                Some(asked) => connect::explain(config, asked.clone()),
                None => error.into(),
            })
            .context("cannot migrate ClickHouse")?;
        output::print("Catalog and ClickHouse have the schema of this version.");
        Ok(())
    })
}
