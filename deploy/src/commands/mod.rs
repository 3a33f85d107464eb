//! The operator's tools. They need no key: who can open the data folder or the database may.

pub mod backup;
pub mod import;
pub mod invites;
pub mod keys;
pub mod log;
pub mod members;
pub mod migrations;
mod next_step;
pub mod nodes;
pub mod organizations;
pub mod purge;
pub mod rejected;
pub mod secrets;
mod table;

pub use millrace_import::count::counted;
pub use next_step::{Given, quoted};

use crate::config::Config;
use crate::open;
use anyhow::Context;

/// `millrace migrate`: both schemas, now rather than at the next start.
///
/// # Errors
/// When a database cannot be reached or refuses.
pub fn migrate(config: &Config) -> anyhow::Result<()> {
    open::block_on(async {
        // A database in PostgreSQL is there before its tables are; a file of SQLite is a server's to make.
        let catalog = match config.database_url.starts_with("sqlite:") {
            true => open::catalog(config).await?,
            false => open::catalog_or_make(config).await?,
        };
        catalog.close().await?;
        let migrated = open::clickhouse(config)?.migrate().await;
        migrated
            .map_err(|error| match error.query_error() {
                Some(asked) => open::explained(config, asked.clone()),
                None => error.into(),
            })
            .context("cannot migrate ClickHouse")?;
        crate::print("Catalog and ClickHouse have the schema of this version.");
        Ok(())
    })
}
