//! `millrace backup` and `millrace restore`: what the embedded default keeps, in a folder.
//!
//! | In a backup | How it gets there |
//! |---|---|
//! | `clickhouse/` | ClickHouse's own `BACKUP`: everything stored before it began. It may write to `clickhouse_backup_dir` only, from where it is moved (`backup_dir`) |
//! | `catalog.db` | SQLite's `VACUUM INTO`, afterwards: it knows the project of every event |
//! | `secret.key`, `credentials.json`, `poison/` | copied |
//! | `whole` | written last: what lacks it was cut off |
//!
//! Two things stay out. The log: what is in it is on its way to ClickHouse, and sent again by a
//! second server it would be stored twice. The node's name: it is part of the tokens by which
//! ClickHouse knows an insert that it has, so two servers of one name would lose rows. Nor do exports
//! of the new server wait for the old node. Persons and groups are copied to ClickHouse once more, as
//! the catalog is of a later moment.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use crate::{backup_dir, data_dir, engine, open};
use anyhow::{Context, bail};
use clap::Args;
use millrace_clickhouse::{ClickHouse, CopyId, CopyState};
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at how far ClickHouse is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long ClickHouse may take to answer after its start.
const START_WAIT: Duration = Duration::from_secs(60);
/// Says that a backup is whole, and which version made it.
const WHOLE: &str = "whole";
/// What is copied as it is, where it is there.
const KEPT: [&str; 3] = ["secret.key", "credentials.json", "poison"];

/// Where to put a backup.
#[derive(Args, Clone, Debug)]
pub struct Backup {
    /// The folder to make
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

/// Which backup to read.
#[derive(Args, Clone, Debug)]
pub struct Restore {
    /// The folder that `millrace backup` made
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Makes a backup of a running server.
///
/// # Errors
/// When this is not the embedded default, nothing runs, or the folder cannot be made and filled.
pub fn backup(config: &Config, backup: &Backup) -> anyhow::Result<()> {
    let dir = only_embedded(config)?;
    must_be_a_server(&config.data_dir)?;
    let to = new_folder(config, &backup.to)?;
    // Before anything is made: whether ClickHouse answers.
    open::block_on(async {
        let answered = open::clickhouse(config)?.ping().await;
        answered.map_err(|error| open::explained(config, error))
    })?;
    let writing = backup_dir::begin(dir)?;
    let mut builder = DirBuilder::new();
    let made = builder.mode(0o700).create(&to);
    made.with_context(|| format!("cannot make {}", to.display()))?;
    let copied = open::block_on(async {
        let clickhouse = open::clickhouse(config)?;
        let made = writing.part();
        let asked = clickhouse.backup(text(made)?).await;
        let id = asked.map_err(|error| open::explained(config, error))?;
        let copied = until_copied(&clickhouse, id).await;
        let taken = copied.and_then(|()| take(made, &to.join("clickhouse")));
        if taken.is_err() {
            // Whatever is there is in nobody's way, and in nobody's backup.
            let _ = fs::remove_dir_all(made);
        }
        taken?;
        must_hold(&to, "clickhouse")?;
        let catalog = open::catalog(config).await?;
        catalog.copy_to(text(&to.join("catalog.db"))?).await?;
        catalog.close().await?;
        keep(&config.data_dir, &to)?;
        make_durable(&to)?;
        let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
        fs::write(to.join(WHOLE), version).context("cannot say that it is whole")?;
        make_durable(&to)
    });
    copied.with_context(|| format!("{} is no whole backup; delete it", to.display()))?;
    crate::print(&format!("{} is a whole backup.", to.display()));
    Ok(())
}

/// Makes a data folder of a backup.
///
/// # Errors
/// When this is not the embedded default, the data folder is in use, or the backup is not whole.
pub fn restore(config: &Config, restore: &Restore) -> anyhow::Result<()> {
    only_embedded(config)?;
    let from = std::path::absolute(&restore.from)?;
    if !from.join(WHOLE).exists() {
        bail!(
            "{} holds no whole backup; give a folder that `millrace backup` called whole",
            from.display()
        );
    }
    for part in ["clickhouse", "catalog.db"] {
        must_hold(&from, part)?;
    }
    let data_dir = &config.data_dir;
    if fs::read_dir(data_dir).is_ok_and(|mut files| files.next().is_some()) {
        bail!(
            "{} is in use; name a new folder with --data-dir",
            data_dir.display()
        );
    }
    let _lock = data_dir::take(data_dir, "millrace")?;
    let read = open::block_on(async {
        copy(&from.join("catalog.db"), &data_dir.join("catalog.db"))?;
        keep(&from, data_dir)?;
        let catalog = open::catalog(config).await?;
        catalog.retire_ingest_nodes().await?;
        catalog.copy_persons_again().await?;
        catalog.close().await?;
        let path = config.credentials_path();
        let mut credentials = Credentials::load(&path)?.unwrap_or_default();
        let engine = engine::start(&reading(config, &from), &mut credentials).await?;
        let clickhouse = ClickHouse::new(&open::embedded_settings(&credentials));
        let answers = async {
            while clickhouse.ping().await.is_err() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let answered = tokio::time::timeout(START_WAIT, answers).await;
        answered.context("the embedded ClickHouse does not come up; see the log")?;
        let id = clickhouse.restore(text(&from.join("clickhouse"))?).await?;
        until_copied(&clickhouse, id).await?;
        if let Some(engine) = engine {
            tokio::task::spawn_blocking(|| engine.stop()).await?;
        }
        make_durable(data_dir)
    });
    read.with_context(|| format!("{} is not whole; delete it", data_dir.display()))?;
    crate::print(&format!("{} has what the backup had.", data_dir.display()));
    Ok(())
}

/// The folder of a server has both halves of what a backup is of; that of `millrace clickhouse` alone has
/// no catalog, which is elsewhere.
fn must_be_a_server(data_dir: &Path) -> anyhow::Result<()> {
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

/// The folder to make, wherever links lead: one that is not there, in one that is, and outside of what is
/// copied. Nothing is made.
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

/// A backup lacks something if a part of it is not where it was to be written: ClickHouse may be on
/// another machine, or somebody has taken it away.
fn must_hold(backup: &Path, part: &str) -> anyhow::Result<()> {
    if backup.join(part).exists() {
        return Ok(());
    }
    bail!(
        "{} is not whole: there is no {part} in it",
        backup.display()
    )
}

/// The folder that ClickHouse writes backups to.
fn only_embedded(config: &Config) -> anyhow::Result<&Path> {
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

/// The configuration of an engine that may read this folder.
fn reading(config: &Config, from: &Path) -> Config {
    let mut config = config.clone();
    if let Engine::Embedded { backup_dir, .. } = &mut config.engine {
        from.clone_into(backup_dir);
    }
    config
}

/// Moves what ClickHouse wrote to where it is to be, maybe to another disk.
fn take(made: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::rename(made, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let copied = copy(made, to);
            // Whole or not, nobody needs it there any more.
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

async fn until_copied(clickhouse: &ClickHouse, id: CopyId) -> anyhow::Result<()> {
    loop {
        let state = clickhouse.copying(id).await;
        match state.context("ClickHouse does not say how far it is")? {
            CopyState::Running => tokio::time::sleep(LOOK_EVERY).await,
            CopyState::Done => return Ok(()),
            CopyState::Failed(reason) => bail!("ClickHouse gave up: {reason}"),
        }
    }
}

/// Copies what is kept as it is.
fn keep(from: &Path, to: &Path) -> anyhow::Result<()> {
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
            // Somebody has looked after these rows meanwhile.
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

/// ClickHouse does not sync what it copies.
fn make_durable(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.with_context(|| format!("cannot sync the disk of {}", dir.display()))
}

fn text(path: &Path) -> anyhow::Result<&str> {
    let text = path.to_str();
    text.with_context(|| format!("{} is not UTF-8, which ClickHouse needs", path.display()))
}
