//! Creates a data folder from a backup.

use super::clickhouse::{CHECK_INTERVAL, embedded_backup_dir, wait_until_copied};
use super::contents::{CATALOG, CLICKHOUSE, copy_kept, require_complete};
use super::files::{copy, make_durable, utf8};
use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::{connect, data_dir, engine};
use anyhow::{Context, bail};
use millrace_clickhouse::ClickHouse;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Timeout for the first response of ClickHouse after its start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates the data folder of a configuration from a backup.
///
/// # Errors
/// When this is not the embedded default, the data folder is in use, or the backup is not whole.
pub fn restore(config: &Config, named: &Path) -> anyhow::Result<()> {
    embedded_backup_dir(config)?;
    // ClickHouse takes a path with `..` for one outside of what it may read.
    let from = named.canonicalize().with_context(|| {
        format!(
            "cannot use {} as a backup; give a folder that `millrace backup` called whole",
            named.display()
        )
    })?;
    require_complete(&from)?;
    let data_dir = &config.data_dir;
    if fs::read_dir(data_dir).is_ok_and(|mut files| files.next().is_some()) {
        bail!(
            "{} is in use; name a new folder with --data-dir",
            data_dir.display()
        );
    }
    let _lock = data_dir::take(data_dir, "millrace")?;
    let filled = connect::block_on(fill(config, &from));
    filled.with_context(|| format!("{} is not whole; delete it", data_dir.display()))
}

/// Copies all parts of a backup into the data folder: credentials before ClickHouse, which starts
/// with them.
async fn fill(config: &Config, from: &Path) -> anyhow::Result<()> {
    copy(&from.join(CATALOG), &config.data_dir.join(CATALOG))?;
    copy_kept(from, &config.data_dir)?;
    adapt_catalog(config).await?;
    restore_clickhouse(config, from).await?;
    make_durable(&config.data_dir)
}

/// Adapts the catalog to a new node, and to a ClickHouse of an earlier moment.
async fn adapt_catalog(config: &Config) -> anyhow::Result<()> {
    let catalog = connect::catalog(config).await?;
    if !catalog.is_bootstrapped().await? {
        bail!(
            "the backup has an empty catalog.db, which no server has used: an earlier version made it \
             in the folder of a `millrace clickhouse`; restore its folder clickhouse as RUNBOOK.md says \
             of \"A ClickHouse of its own\""
        );
    }
    catalog.deregister_ingest_nodes().await?;
    catalog.copy_persons_again().await?;
    catalog.close().await?;
    Ok(())
}

/// Starts an engine on the data folder, and has it read the backup.
async fn restore_clickhouse(config: &Config, from: &Path) -> anyhow::Result<()> {
    let path = config.credentials_path();
    let mut credentials = Credentials::load(&path)?.unwrap_or_default();
    let engine = engine::start(
        &config_reading(config, &from.join(CLICKHOUSE)),
        &mut credentials,
    )
    .await?;
    let clickhouse = ClickHouse::new(&connect::embedded_settings(&credentials));
    wait_until_up(&clickhouse).await?;
    let id = clickhouse.restore(utf8(&from.join(CLICKHOUSE))?).await?;
    wait_until_copied(&clickhouse, id).await?;
    if let Some(engine) = engine {
        tokio::task::spawn_blocking(|| engine.stop()).await?;
    }
    Ok(())
}

async fn wait_until_up(clickhouse: &ClickHouse) -> anyhow::Result<()> {
    let answers = async {
        while clickhouse.ping().await.is_err() {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    let answered = tokio::time::timeout(START_TIMEOUT, answers).await;
    answered.context("the embedded ClickHouse does not come up; see the log")
}

/// Configuration of an engine that may read this folder as its backups.
fn config_reading(config: &Config, from: &Path) -> Config {
    let mut config = config.clone();
    if let Engine::Embedded { backup_dir, .. } = &mut config.engine {
        from.clone_into(backup_dir);
    }
    config
}
