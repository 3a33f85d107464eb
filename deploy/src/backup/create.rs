//! Creates a backup of a running server.

use super::clickhouse::{embedded_backup_dir, wait_until_copied};
use super::contents::{CATALOG, CLICKHOUSE, copy_kept, mark_complete, require_part};
use super::files::{move_backup, utf8};
use crate::config::Config;
use crate::{backup_dir, connect};
use anyhow::{Context, bail};
use millrace_organizations::is_bootstrapped;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Advice for the folder of `millrace clickhouse` alone.
const CLICKHOUSE_ALONE: &str = "it is the folder of `millrace clickhouse`, and organizations, projects \
     and keys are with the servers that send there; back it up with `BACKUP DATABASE millrace TO \
     File('...')`, then the catalog (see \"A ClickHouse of its own\" in RUNBOOK.md)";

/// Creates a backup of a running server in a new folder; returns the folder's path.
///
/// # Errors
/// When this is not the embedded default, nothing runs, or the folder cannot be made and filled.
pub fn create(config: &Config, named: &Path) -> anyhow::Result<PathBuf> {
    let dir = embedded_backup_dir(config)?;
    require_server(&config.data_dir)?;
    let to = new_folder(config, named)?;
    // Before anything is created: does ClickHouse answer?
    connect::block_on(async {
        let answered = connect::clickhouse(config)?.ping().await;
        answered.map_err(|error| connect::explain(config, error))
    })?;
    connect::with_catalog(config, async |catalog| {
        if is_bootstrapped(catalog).await? {
            return Ok(());
        }
        let dir = config.data_dir.display();
        bail!("no server has ever used the catalog.db of {dir}: {CLICKHOUSE_ALONE}")
    })?;
    let lock = backup_dir::begin(dir)?;
    let mut builder = DirBuilder::new();
    let made = builder.mode(0o700).create(&to);
    made.with_context(|| format!("cannot create {}", to.display()))?;
    let filled = connect::block_on(fill(config, lock.part(), &to));
    filled.with_context(|| format!("{} is not a complete backup; delete it", to.display()))?;
    Ok(to)
}

/// Copies all parts of a backup: ClickHouse first, so that the catalog knows every project in it.
async fn fill(config: &Config, staging: &Path, to: &Path) -> anyhow::Result<()> {
    copy_clickhouse(config, staging, &to.join(CLICKHOUSE)).await?;
    require_part(to, CLICKHOUSE)?;
    let catalog = connect::catalog(config).await?;
    catalog.copy_to(utf8(&to.join(CATALOG))?).await?;
    catalog.close().await?;
    copy_kept(&config.data_dir, to)?;
    mark_complete(to)
}

/// Has ClickHouse write its copy to where it may, and moves it from there.
async fn copy_clickhouse(config: &Config, staging: &Path, to: &Path) -> anyhow::Result<()> {
    let clickhouse = connect::clickhouse(config)?;
    let asked = clickhouse.backup(utf8(staging)?).await;
    let id = asked.map_err(|error| connect::explain(config, error));
    let id = id.with_context(|| {
        format!(
            "ClickHouse cannot write a backup to {}; give --data-dir and clickhouse_backup_dir \
             with the same paths as the server has",
            staging.display()
        )
    })?;
    let copied = wait_until_copied(&clickhouse, id).await;
    let moved = copied.and_then(|()| move_backup(staging, to));
    if moved.is_err() {
        // An incomplete backup is of no use.
        let _ = fs::remove_dir_all(staging);
    }
    moved
}

/// Fails unless this is the folder of a server with ClickHouse and catalog: that of `millrace
/// clickhouse` alone has no catalog.
fn require_server(data_dir: &Path) -> anyhow::Result<()> {
    let has = |name: &str| data_dir.join(name).exists();
    let dir = data_dir.display();
    match (has("catalog.db"), has("clickhouse")) {
        (true, true) => Ok(()),
        (true, false) => bail!(
            "{dir} has no ClickHouse: its server sends to another one, which has the events; back that up \
             with its own tools, then this folder's catalog.db (see \"Back up and restore\" in RUNBOOK.md)"
        ),
        (false, true) => bail!("{dir} has no catalog.db: {CLICKHOUSE_ALONE}"),
        (false, false) => bail!(
            "{dir} has neither catalog.db nor a ClickHouse: name the folder of a server with --data-dir"
        ),
    }
}

/// Resolves the folder to create: it must not exist, its parent must, and it must lie outside of
/// what is copied, wherever links lead. Creates nothing.
fn new_folder(config: &Config, named: &Path) -> anyhow::Result<PathBuf> {
    let to = std::path::absolute(named)?;
    if fs::symlink_metadata(&to).is_ok() {
        bail!(
            "{} exists already; give a folder that does not exist",
            to.display()
        );
    }
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        bail!("{} is not a folder that could be created", to.display());
    };
    let Some(parent) = parent.canonicalize().ok().filter(|parent| parent.is_dir()) else {
        bail!(
            "the folder {} does not exist, in which {} is to be created; create it first",
            parent.display(),
            name.display()
        );
    };
    for kept in [&config.data_dir, &config.log_dir] {
        if kept
            .canonicalize()
            .is_ok_and(|kept| parent.starts_with(kept))
        {
            bail!(
                "{} is in {}, which the server writes to; give a folder outside of it, best on another disk",
                to.display(),
                kept.display()
            );
        }
    }
    Ok(parent.join(name))
}
