//! `millrace migrate`: applies the schema migrations now, not at the next start, or prints them;
//! and makes the users of an operator's ClickHouse.

use super::counted;
use crate::config::{Config, Engine};
use crate::connect;
use crate::output;
use crate::project_access::{USERS, check_supported};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use millrace_clickhouse::{ClickHouse, QueryError, Replication, Settings, schema_statements};
use millrace_embedded::{READER, password_hash};
use uuid::Uuid;

/// Name of the cluster in printed statements, unless one is configured.
const CLUSTER: &str = "main";

/// Options of `millrace migrate`.
#[derive(Args, Clone, Copy, Debug)]
pub struct Migrate {
    /// Print the statements that make ClickHouse's tables, and change nothing
    ///
    /// By default those for the configured ClickHouse.
    #[arg(long, value_enum, num_args = 0..=1, default_missing_value = "configured", value_name = "FOR")]
    print: Option<Target>,
    /// Also make the users of ClickHouse: `reader`, whose new password is printed, and what the
    /// users of projects need
    ///
    /// For a server that clickhouse_url names. Its user needs the right to manage users, roles,
    /// row policies and quotas. The embedded ClickHouse has these users anyway, and shards have no
    /// users of single projects.
    #[arg(long, conflicts_with = "print")]
    users: bool,
}

/// ClickHouse that statements are printed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// The ClickHouse of the settings
    Configured,
    /// One server
    Server,
    /// A cluster with replicated tables in Keeper
    Cluster,
    /// A cluster with a database of engine Replicated
    ReplicatedDatabase,
    /// Shards without replicas
    Shards,
    /// ClickHouse Cloud
    Cloud,
}

/// Runs the command.
///
/// # Errors
/// When a database cannot be reached or refuses.
pub fn run(config: &Config, migrate: &Migrate) -> anyhow::Result<()> {
    if let Some(target) = migrate.print {
        for statement in schema_statements(&settings_of(config, target)) {
            output::print(&format!("{statement};"));
        }
        return Ok(());
    }
    if migrate.users {
        check_users(config)?;
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
        migrate_clickhouse(config, &clickhouse).await?;
        output::print("Catalog and ClickHouse have the schema of this version.");
        if migrate.users {
            let password = Uuid::new_v4().simple().to_string();
            let made = make_users(&clickhouse, &password).await;
            made.map_err(|error| connect::explain(config, error))
                .context("cannot make users in ClickHouse")?;
            output::print(&format!("User {READER}, password {password}"));
        }
        Ok(())
    })
}

/// Fails where users are not made by SQL.
fn check_users(config: &Config) -> anyhow::Result<()> {
    if matches!(config.engine, Engine::Embedded { .. }) {
        bail!(
            "the embedded ClickHouse has its users; `millrace clickhouse-users list` shows them. Omit --users"
        );
    }
    check_supported(config)
}

async fn migrate_clickhouse(config: &Config, clickhouse: &ClickHouse) -> anyhow::Result<()> {
    let migrated = clickhouse.migrate().await;
    migrated
        .map_err(|error| match error.query_error() {
            Some(asked) => connect::explain(config, asked.clone()),
            None => error.into(),
        })
        .context("cannot migrate ClickHouse")?;
    let refused = |error: QueryError| connect::explain(config, error);
    let copied = clickhouse.fill_shards().await;
    let copied = copied
        .map_err(refused)
        .context("cannot copy persons and groups to each shard")?;
    if copied > 0 {
        output::print(&format!(
            "{} of persons and groups copied to shards that lacked rows.",
            counted(u64::from(copied), "table")
        ));
    }
    Ok(())
}

async fn make_users(clickhouse: &ClickHouse, password: &str) -> Result<(), QueryError> {
    clickhouse.prepare_users(&USERS).await?;
    let hash = password_hash(password);
    clickhouse.make_reader(READER, &hash).await
}

/// Settings of the ClickHouse that statements are printed for.
fn settings_of(config: &Config, target: Target) -> Settings {
    let configured = connect::configured_settings(config);
    let replication = match target {
        Target::Configured => {
            return configured.unwrap_or_else(|| Settings::new("", "", ""));
        }
        Target::Server => None,
        Target::Cluster => Some(Replication::Keeper),
        Target::ReplicatedDatabase => Some(Replication::Database),
        Target::Shards => Some(Replication::None),
        Target::Cloud => Some(Replication::Cloud),
    };
    let cluster = configured.and_then(|settings| settings.cluster);
    Settings {
        cluster: replication.map(|_| cluster.unwrap_or_else(|| CLUSTER.to_owned())),
        replication: replication.unwrap_or_default(),
        ..Settings::new("", "", "")
    }
}
