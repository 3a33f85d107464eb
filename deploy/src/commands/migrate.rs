//! `millrace migrate`: applies the schema migrations now, not at the next start, or prints them.

use super::counted;
use crate::config::Config;
use crate::connect;
use crate::output;
use anyhow::Context;
use clap::{Args, ValueEnum};
use millrace_clickhouse::{ClickHouse, QueryError, Replication, Settings, schema_statements};

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
    connect::block_on(async {
        // A database in PostgreSQL exists before its tables; a file of SQLite is created by a
        // server only.
        let catalog = match config.database_url.starts_with("sqlite:") {
            true => connect::catalog(config).await?,
            false => connect::catalog_or_create(config).await?,
        };
        catalog.close().await?;
        migrate_clickhouse(config, &connect::clickhouse(config)?).await?;
        output::print("Catalog and ClickHouse have the schema of this version.");
        Ok(())
    })
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
