//! Task that keeps the table of project keys as the catalog has it.

use super::{END, KEYS_MAX, TITLE, describe, line_of, path, set_age};
use crate::config::Config;
use anyhow::Context;
use millrace_catalog::{Catalog, ProjectId, ProjectKeys};
use millrace_ingest::keys::Keys;
use millrace_rows::RareLog;
use std::convert::Infallible;
use std::fs::{File, OpenOptions, rename};
use std::io::{BufWriter, IntoInnerError, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tokio::time::MissedTickBehavior;

/// Interval of looking for changes: a revoked key is in no table two seconds later.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Interval in which the file is said to be what the catalog has.
const CONFIRM_EVERY: Duration = Duration::from_secs(10);
/// Pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Pause between two tables, as a multiple of the time that the last one took.
const PAUSE_FACTOR: u32 = 10;
/// Keys that are read at once.
const PAGE_KEYS: u64 = 1_000;

/// Table that is kept.
struct Keeper {
    catalog: Catalog,
    keys: Keys,
    data_dir: PathBuf,
    /// Counter of changes that the file is up to.
    written: Option<i64>,
    /// Time before which nothing is written.
    next_at: Instant,
    confirmed_at: Instant,
    failures: RareLog,
}

/// Begins to keep the table, if the catalog may be away while the data folder is there.
pub fn begin(config: &Config, catalog: &Catalog, keys: &Keys) {
    if !config.database_url.starts_with("sqlite:") {
        let (catalog, keys) = (catalog.clone(), keys.clone());
        tokio::spawn(keep(catalog, keys, config.data_dir.clone()));
    }
}

/// Keeps the table of a node for ever.
async fn keep(catalog: Catalog, keys: Keys, data_dir: PathBuf) -> Infallible {
    describe();
    let mut every = tokio::time::interval(LOOK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let now = Instant::now();
    let mut keeper = Keeper {
        catalog,
        keys,
        data_dir,
        written: None,
        next_at: now,
        confirmed_at: now,
        failures: RareLog::default(),
    };
    loop {
        every.tick().await;
        keeper.look().await;
        keeper.tell_age();
    }
}

impl Keeper {
    async fn look(&mut self) {
        let Some(version) = self.keys.checked_version() else {
            return;
        };
        if self.written == Some(version) {
            self.confirm();
            return;
        }
        let begun = Instant::now();
        if begun < self.next_at {
            return;
        }
        let pause = match self.write().await {
            Ok(()) => {
                self.written = Some(version);
                self.confirmed_at = begun;
                begun.elapsed() * PAUSE_FACTOR
            }
            Err(error) => {
                self.log(&format!("{error:#}"));
                RETRY_PAUSE
            }
        };
        self.next_at = Instant::now() + pause;
    }

    async fn write(&self) -> anyhow::Result<()> {
        let id = self.catalog.id().await?;
        let path = path(&self.data_dir);
        let temporary = path.with_added_extension("tmp");
        let failed = || format!("cannot write {}", temporary.display());
        let opened = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary);
        let mut file = BufWriter::new(opened.with_context(failed)?);
        writeln!(file, "{TITLE}{id}").with_context(failed)?;
        let (mut count, mut last) = (0, ProjectId(0));
        while count < KEYS_MAX {
            let keys = ProjectKeys::new(&self.catalog);
            let page = keys.list_behind(last, PAGE_KEYS).await?;
            let Some(end) = page.last() else {
                break;
            };
            last = end.project.project_id;
            count += page.len() as u64;
            let lines: String = page.iter().map(line_of).collect();
            file.write_all(lines.as_bytes()).with_context(failed)?;
        }
        writeln!(file, "{END}{count}").with_context(failed)?;
        let file = file.into_inner().map_err(IntoInnerError::into_error);
        let file = file.with_context(failed)?;
        let renamed = tokio::task::spawn_blocking(move || finish(&file, &temporary, &path));
        renamed.await.context("the table of keys was not synced")?
    }

    /// Says from time to time that the file is what the catalog has.
    fn confirm(&mut self) {
        if self.confirmed_at.elapsed() < CONFIRM_EVERY {
            return;
        }
        let confirmed = File::options().write(true).open(path(&self.data_dir));
        let confirmed = confirmed.and_then(|file| file.set_modified(SystemTime::now()));
        match confirmed {
            Ok(()) => self.confirmed_at = Instant::now(),
            // It was deleted.
            Err(_) => self.written = None,
        }
    }

    fn tell_age(&self) {
        let file = std::fs::metadata(path(&self.data_dir));
        if let Ok(modified) = file.and_then(|file| file.modified()) {
            set_age(modified.elapsed().unwrap_or_default());
        }
    }

    fn log(&self, error: &str) {
        if self.failures.is_due(error, Instant::now()) {
            tracing::warn!(
                error,
                "the table of project keys in the data folder is not up to date; a start without \
                 the catalog would not know the last changes"
            );
        }
    }
}

/// Syncs a file and gives it its name, durably.
fn finish(file: &File, temporary: &Path, path: &Path) -> anyhow::Result<()> {
    let write = || -> std::io::Result<()> {
        file.sync_all()?;
        rename(temporary, path)?;
        match path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
