//! `millrace backup` and `millrace restore`: the data of the embedded default, in a folder.
//!
//! | In a backup | Made by |
//! |---|---|
//! | `clickhouse/` | ClickHouse's own `BACKUP`: everything stored before it began. It may write to `clickhouse_backup_dir` only, from where it is moved (`backup_dir`) |
//! | `catalog.db` | SQLite's `VACUUM INTO`, afterwards: it knows the project of every event |
//! | `secret.key`, `credentials.json`, `dead-letters/` | copied |
//! | `whole` | written last: a backup without it is incomplete |
//!
//! Two things are not in a backup. The log: its events are being shipped, and a second server that
//! ships them again would store them twice. The node's name: it is part of the deduplication tokens
//! of inserts, so two servers of one name would lose rows. The old node is deregistered in the new
//! catalog, so that exports do not wait for it. Persons and groups are copied to ClickHouse once
//! more, as the catalog is of a later moment.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::data_dir::{DEAD_LETTERS, FORMER_DEAD_LETTERS};
use crate::{backup_dir, connect, data_dir, engine};
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::{ClickHouse, CopyId, CopyState};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause between two checks of ClickHouse's progress.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Timeout for the first response of ClickHouse after its start.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// File that marks a complete backup; it has the version that made it.
const COMPLETE_MARK: &str = "whole";
/// Files and folders that are copied unchanged, if they exist.
const KEPT: [&str; 4] = [
    "secret.key",
    "credentials.json",
    DEAD_LETTERS,
    FORMER_DEAD_LETTERS,
];

/// Arguments of `millrace backup`.
#[derive(Args, Clone, Debug)]
pub struct Backup {
    /// Folder to create
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

/// Arguments of `millrace restore`.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// Folder that `millrace backup` created
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Makes a backup of a running server.
///
/// # Errors
/// When this is not the embedded default, nothing runs, or the folder cannot be made and filled.
pub fn backup(config: &Config, backup: &Backup) -> anyhow::Result<()> {
    let dir = embedded_backup_dir(config)?;
    require_server(&config.data_dir)?;
    let to = new_folder(config, &backup.to)?;
    // Before anything is created: does ClickHouse answer?
    connect::block_on(async {
        let answered = connect::clickhouse(config)?.ping().await;
        answered.map_err(|error| connect::explain(config, error))
    })?;
    let lock = backup_dir::begin(dir)?;
    let mut builder = DirBuilder::new();
    let made = builder.mode(0o700).create(&to);
    made.with_context(|| format!("cannot make {}", to.display()))?;
    let copied = connect::block_on(async {
        let clickhouse = connect::clickhouse(config)?;
        let made = lock.part();
        let asked = clickhouse.backup(utf8(made)?).await;
        let id = asked.map_err(|error| connect::explain(config, error))?;
        let copied = wait_until_copied(&clickhouse, id).await;
        let taken = copied.and_then(|()| move_backup(made, &to.join("clickhouse")));
        if taken.is_err() {
            // An incomplete backup is of no use.
            let _ = fs::remove_dir_all(made);
        }
        taken?;
        require_part(&to, "clickhouse")?;
        let catalog = connect::catalog(config).await?;
        catalog.copy_to(utf8(&to.join("catalog.db"))?).await?;
        catalog.close().await?;
        copy_kept(&config.data_dir, &to)?;
        make_durable(&to)?;
        let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
        fs::write(to.join(COMPLETE_MARK), version).context("cannot say that it is whole")?;
        make_durable(&to)
    });
    copied.with_context(|| format!("{} is no whole backup; delete it", to.display()))?;
    crate::print(&format!("{} is a whole backup.", to.display()));
    Ok(())
}

/// Creates a data folder from a backup.
///
/// # Errors
/// When this is not the embedded default, the data folder is in use, or the backup is not whole.
pub fn restore(config: &Config, restore: &Restore) -> anyhow::Result<()> {
    embedded_backup_dir(config)?;
    let from = std::path::absolute(&restore.from)?;
    if !from.join(COMPLETE_MARK).exists() {
        bail!(
            "{} holds no whole backup; give a folder that `millrace backup` called whole",
            from.display()
        );
    }
    for part in ["clickhouse", "catalog.db"] {
        require_part(&from, part)?;
    }
    let data_dir = &config.data_dir;
    if fs::read_dir(data_dir).is_ok_and(|mut files| files.next().is_some()) {
        bail!(
            "{} is in use; name a new folder with --data-dir",
            data_dir.display()
        );
    }
    let _lock = data_dir::take(data_dir, "millrace")?;
    let read = connect::block_on(async {
        copy(&from.join("catalog.db"), &data_dir.join("catalog.db"))?;
        copy_kept(&from, data_dir)?;
        let catalog = connect::catalog(config).await?;
        catalog.deregister_ingest_nodes().await?;
        catalog.copy_persons_again().await?;
        catalog.close().await?;
        let path = config.credentials_path();
        let mut credentials = Credentials::load(&path)?.unwrap_or_default();
        let engine = engine::start(&config_reading(config, &from), &mut credentials).await?;
        let clickhouse = ClickHouse::new(&connect::embedded_settings(&credentials));
        let answers = async {
            while clickhouse.ping().await.is_err() {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        let answered = tokio::time::timeout(START_TIMEOUT, answers).await;
        answered.context("the embedded ClickHouse does not come up; see the log")?;
        let id = clickhouse.restore(utf8(&from.join("clickhouse"))?).await?;
        wait_until_copied(&clickhouse, id).await?;
        if let Some(engine) = engine {
            tokio::task::spawn_blocking(|| engine.stop()).await?;
        }
        make_durable(data_dir)
    });
    read.with_context(|| format!("{} is not whole; delete it", data_dir.display()))?;
    crate::print(&format!("{} has what the backup had.", data_dir.display()));
    Ok(())
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
        (false, true) => bail!(
            "{dir} has no catalog.db: it is the folder of `millrace clickhouse`, and organizations, projects \
             and keys are with the servers that send there; back it up with `BACKUP DATABASE millrace TO \
             File('...')`, then the catalog (see \"A ClickHouse of its own\" in RUNBOOK.md)"
        ),
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
            "{} is there already; give a folder that is not there",
            to.display()
        );
    }
    let (Some(parent), Some(name)) = (to.parent(), to.file_name()) else {
        bail!("{} is no folder that could be made", to.display());
    };
    let Some(parent) = parent.canonicalize().ok().filter(|parent| parent.is_dir()) else {
        bail!(
            "the folder {} is not there, in which {} is to be made; make it first",
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

/// Fails if a part of a backup is missing: ClickHouse may be on another machine, or somebody has
/// removed the part.
fn require_part(backup: &Path, part: &str) -> anyhow::Result<()> {
    if backup.join(part).exists() {
        return Ok(());
    }
    bail!(
        "{} is not whole: there is no {part} in it",
        backup.display()
    )
}

/// Folder that the embedded ClickHouse writes backups to.
///
/// # Errors
/// When this is not the embedded default.
fn embedded_backup_dir(config: &Config) -> anyhow::Result<&Path> {
    let sqlite = config.data_dir.join("catalog.db");
    let is_default = config.database_url.contains(&*sqlite.to_string_lossy());
    if let (true, Engine::Embedded { backup_dir, .. }) = (is_default, &config.engine) {
        return Ok(backup_dir);
    }
    bail!(
        "this is for the embedded ClickHouse and the SQLite catalog in the data folder; copy a \
         ClickHouse server and PostgreSQL with their own tools, ClickHouse first"
    )
}

/// Configuration of an engine that may read this folder as its backups.
fn config_reading(config: &Config, from: &Path) -> Config {
    let mut config = config.clone();
    if let Engine::Embedded { backup_dir, .. } = &mut config.engine {
        from.clone_into(backup_dir);
    }
    config
}

/// Moves the backup that ClickHouse wrote to its target, maybe on another disk.
fn move_backup(made: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::rename(made, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let copied = refuse_links(made).and_then(|()| copy(made, to));
            // Copied or not, the original is not needed any more.
            let removed = fs::remove_dir_all(made);
            copied?;
            removed.with_context(|| format!("cannot remove {}", made.display()))
        }
        moved => moved.with_context(|| {
            format!(
                "cannot move {}, which ClickHouse wrote, to {}",
                made.display(),
                to.display()
            )
        }),
    }
}

/// Fails unless a folder that ClickHouse wrote has files and folders only. It writes no links; a
/// copy would follow one that somebody who took it over has made, to files that it may not read.
fn refuse_links(dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        match entry? {
            kind if kind.is_dir() => refuse_links(&path)?,
            kind if kind.is_file() => {}
            _ => bail!(
                "{} is no file and no folder; it is not copied",
                path.display()
            ),
        }
    }
    Ok(())
}

async fn wait_until_copied(clickhouse: &ClickHouse, id: CopyId) -> anyhow::Result<()> {
    loop {
        let state = clickhouse.copying(id).await;
        match state.context("ClickHouse does not say how far it is")? {
            CopyState::Running => tokio::time::sleep(CHECK_INTERVAL).await,
            CopyState::Done => return Ok(()),
            CopyState::Failed(reason) => bail!("ClickHouse gave up: {reason}"),
        }
    }
}

/// Copies the files and folders of [`KEPT`].
fn copy_kept(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in KEPT {
        let path = from.join(name);
        if path.exists() {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// Copies a file, or a folder with everything in it.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let copied = copy_all(from, to);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return match fs::copy(from, to) {
            // The operator has removed the file meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            copied => copied.map(drop),
        };
    }
    match fs::create_dir(to) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// Syncs the disk of a folder, as ClickHouse does not sync what it copies.
fn make_durable(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.with_context(|| format!("cannot sync the disk of {}", dir.display()))
}

fn utf8(path: &Path) -> anyhow::Result<&str> {
    let utf8 = path.to_str();
    utf8.with_context(|| format!("{} is not UTF-8, which ClickHouse needs", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_with_a_link_in_it_is_not_copied() {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("part");
        fs::create_dir_all(part.join("data/events")).unwrap();
        fs::write(part.join("data/events/all.bin"), "a").unwrap();
        refuse_links(&part).unwrap();
        std::os::unix::fs::symlink(home.path(), part.join("data/events/up")).unwrap();
        let error = refuse_links(&part).unwrap_err().to_string();
        assert!(error.contains("data/events/up"), "{error}");
    }
}
