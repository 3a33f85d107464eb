//! `millrace migrate`: migrates both schemas now, not at the next start, and makes the users of an
//! operator's ClickHouse.

use crate::config::{Config, Engine};
use crate::connect;
use crate::output;
use crate::project_access::USERS;
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::{ClickHouse, QueryError};
use millrace_embedded::{READER, password_hash};
use uuid::Uuid;

/// Arguments of `millrace migrate`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Migrate {
    /// Also make the users of ClickHouse: `reader`, whose new password is printed, and what the
    /// users of projects need
    ///
    /// For a server that clickhouse_url names. Its user needs the right to manage users, roles,
    /// row policies and quotas. The embedded ClickHouse has these users anyway.
    #[arg(long)]
    users: bool,
}

/// Runs the command.
///
/// # Errors
/// When a database cannot be reached or refuses.
pub fn run(config: &Config, arguments: Migrate) -> anyhow::Result<()> {
    if arguments.users && matches!(config.engine, Engine::Embedded { .. }) {
        bail!(
            "the embedded ClickHouse has its users; `millrace clickhouse-users list` shows them. Omit --users"
        );
    }
    connect::block_on(async {
        // A database in PostgreSQL exists before its tables; a file of SQLite is created by a
        // server only.
        let catalog = match config.database_url.starts_with("sqlite:") {
            true => connect::catalog(config).await?,
            false => connect::catalog_or_create(config).await?,
        };
        catalog.close().await?;
        let clickhouse = connect::clickhouse(config)?;
        let migrated = clickhouse.migrate().await;
        migrated
            .map_err(|error| match error.query_error() {
                Some(asked) => connect::explain(config, asked.clone()),
                None => error.into(),
            })
            .context("cannot migrate ClickHouse")?;
        output::print("Catalog and ClickHouse have the schema of this version.");
        if arguments.users {
            let password = Uuid::new_v4().simple().to_string();
            let made = make_users(&clickhouse, &password).await;
            made.map_err(|error| connect::explain(config, error))
                .context("cannot make users in ClickHouse")?;
            output::print(&format!("User {READER}, password {password}"));
        }
        Ok(())
    })
}

async fn make_users(clickhouse: &ClickHouse, password: &str) -> Result<(), QueryError> {
    clickhouse.prepare_users(&USERS).await?;
    let hash = password_hash(password);
    clickhouse.make_reader(READER, &hash).await
}
