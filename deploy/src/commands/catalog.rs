//! `millrace catalog`: moves the catalog to another database.

use super::counted;
use crate::config::Config;
use crate::{connect, data_dir, output};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_catalog::{Catalog, Nodes, UtcTime};
use millrace_organizations::is_bootstrapped;
use millrace_rows::{Clock, SystemClock, shown};

/// Subcommand of `millrace catalog`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Copy the catalog to an empty database, for all servers to go on with there
    ///
    /// Stop all servers first, and give them the other database_url afterwards. The copy has all
    /// rows with their ids and keys, and the id of the catalog, by which data folders and
    /// ClickHouse know it. This catalog gets another id, so that no server goes on with it.
    Copy(CopyTo),
}

/// Database to copy to.
#[derive(Args, Clone, Debug)]
pub struct CopyTo {
    /// URL of the other database, as in postgres://me@db/millrace or
    /// sqlite:///new/catalog.db?mode=rwc
    #[arg(long, value_name = "URL")]
    to: String,
}

/// Runs the command.
///
/// # Errors
/// When a server may run, the other database is not empty, or either cannot be used.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Command::Copy(copy) = command;
    // Held to the end: no server on this folder begins with the former catalog meanwhile.
    let roles = [data_dir::INGEST_ROLE, data_dir::ADMIN_ROLE].into_iter();
    let locks = roles.map(|role| data_dir::take_used(&config.data_dir, role));
    let _locks = locks.collect::<anyhow::Result<Vec<_>>>()?;
    connect::with_catalog(config, async |catalog| {
        require_stopped(catalog).await?;
        let other = Catalog::open(&copy.to).await;
        let other = other.context("cannot open the database to copy to")?;
        let copied = copy_to(catalog, &other).await;
        if let Err(error) = other.close().await {
            tracing::debug!("the copy was not closed well: {error}");
        }
        copied
    })
}

async fn copy_to(catalog: &Catalog, other: &Catalog) -> anyhow::Result<()> {
    let (from, to) = (catalog.location(), other.location());
    if catalog.id().await? == other.id().await? {
        bail!("{to} is this catalog itself, or a copy of it; give an empty database");
    }
    let rows = counted(catalog.copy_rows_to(other).await?, "row");
    output::print(&format!(
        "{rows} copied to {to}.\nSet database_url to it on all servers, and start them. {from} has another id now, and \
         servers of its data folders refuse it."
    ));
    Ok(())
}

/// Fails for a catalog that no server has used, or that a node may be using.
async fn require_stopped(catalog: &Catalog) -> anyhow::Result<()> {
    if !is_bootstrapped(catalog).await? {
        let location = catalog.location();
        bail!("no server has ever used the catalog {location}, so there is nothing to copy");
    }
    let now = UtcTime::from(SystemClock.now());
    let nodes = Nodes::new(catalog).list().await?;
    match nodes.iter().find(|node| node.may_run(now)) {
        None => Ok(()),
        Some(node) => bail!(
            "node {} on {} may be running; stop all servers, and try again in half a minute",
            shown(&node.name),
            shown(&node.host)
        ),
    }
}
