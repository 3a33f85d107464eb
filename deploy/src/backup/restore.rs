//! Creates a data folder from a backup.
//!
//! What can be checked is checked before anything is made. The folder has a mark until it is whole
//! (`restore_mark`), so that no server starts on what a restore that was cut off has left.

use super::clickhouse::{CHECK_INTERVAL, embedded_backup_dir, wait_until_copied};
use super::contents::{CATALOG, CLICKHOUSE, copy_kept, require_complete};
use super::files::{copy, make_durable, utf8};
use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::data_dir::{self, INGEST_ROLE};
use crate::{connect, engine, preflight, restore_mark};
use anyhow::{Context, bail};
use millrace_catalog::{Catalog, Nodes};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_embedded::Supervisor;
use millrace_organizations::is_bootstrapped;
use millrace_persons::PersonStore;
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
    utf8(&from)?;
    let data_dir = &config.data_dir;
    require_unused(data_dir)?;
    preflight::check_engine(config)?;
    let _lock = data_dir::take(data_dir, INGEST_ROLE)?;
    // Another restore may have filled it before it was locked.
    require_unused(data_dir)?;
    restore_mark::set(data_dir)?;
    let filled = connect::block_on(fill(config, &from));
    let whole = filled.and_then(|()| restore_mark::remove(data_dir));
    whole.with_context(|| format!("{} is not whole; delete it", data_dir.display()))
}

fn require_unused(data_dir: &Path) -> anyhow::Result<()> {
    restore_mark::require_none(data_dir)?;
    if !data_dir::is_unused(data_dir, INGEST_ROLE) {
        bail!(
            "{} is in use; name a new folder with --data-dir",
            data_dir.display()
        );
    }
    Ok(())
}

/// Copies all parts of a backup into the data folder: credentials before ClickHouse, which starts
/// with them.
async fn fill(config: &Config, from: &Path) -> anyhow::Result<()> {
    copy(&from.join(CATALOG), &config.data_dir.join(CATALOG))?;
    copy_kept(from, &config.data_dir)?;
    let credentials = adapt_credentials(config)?;
    let catalog = connect::catalog(config).await?;
    adapt_catalog(&catalog).await?;
    catalog.close().await?;
    restore_clickhouse(config, credentials, &from.join(CLICKHOUSE)).await?;
    make_durable(&config.data_dir)
}

/// Takes the old server's addresses out of the credentials, as commands would ask it before the new
/// one's first start: `purge` would delete events of projects that only the old catalog has.
fn adapt_credentials(config: &Config) -> anyhow::Result<Credentials> {
    let path = config.credentials_path();
    let Some(kept) = Credentials::load(&path)? else {
        return Ok(Credentials::default());
    };
    let credentials = kept.without_addresses();
    credentials.store(&path)?;
    Ok(credentials)
}

/// Adapts the catalog to a new node, and to a ClickHouse of an earlier moment.
async fn adapt_catalog(catalog: &Catalog) -> anyhow::Result<()> {
    if !is_bootstrapped(catalog).await? {
        bail!(
            "the backup has an empty catalog.db, which no server has used: an earlier version \
             created it in the folder of a `millrace clickhouse`; restore its folder clickhouse as \
             RUNBOOK.md says of \"A ClickHouse of its own\""
        );
    }
    Nodes::new(catalog).deregister_all().await?;
    PersonStore::new(catalog).copy_again().await?;
    Ok(())
}

/// Starts an engine on the data folder, and has it read its part of the backup.
async fn restore_clickhouse(
    config: &Config,
    mut credentials: Credentials,
    from: &Path,
) -> anyhow::Result<()> {
    let engine = engine::start(&config_reading(config, from), &mut credentials).await?;
    let engine = engine.context("no ClickHouse is embedded here")?;
    // The owner of the rows is in the backup, for which all tables have to be empty.
    let clickhouse = ClickHouse::new(&Settings {
        owner: None,
        ..connect::embedded_settings(config, &credentials)
    });
    wait_until_up(&clickhouse, &engine).await?;
    let id = clickhouse.restore(utf8(from)?).await;
    let id = id.with_context(|| format!("ClickHouse does not restore {}", from.display()))?;
    wait_until_copied(&clickhouse, id).await?;
    let stopped = tokio::task::spawn_blocking(|| engine.stop()).await;
    stopped.context("the supervisor panicked")
}

async fn wait_until_up(clickhouse: &ClickHouse, engine: &Supervisor) -> anyhow::Result<()> {
    let answers = async {
        while clickhouse.ping().await.is_err() {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    tokio::select! {
        answered = tokio::time::timeout(START_TIMEOUT, answers) => {
            answered.context("the embedded ClickHouse does not come up; see the log")
        }
        () = engine::permanent_failure(engine.status()) => {
            let reason = engine::permanent_failure_reason(engine);
            bail!(reason.unwrap_or_else(|| "the embedded ClickHouse cannot start".to_owned()))
        }
    }
}

/// Configuration of an engine that may read this folder as its backups.
fn config_reading(config: &Config, from: &Path) -> Config {
    let mut config = config.clone();
    if let Engine::Embedded { backup_dir, .. } = &mut config.engine {
        from.clone_into(backup_dir);
    }
    config
}
