//! The stage that fetches: an export into files of the staging folder, part by part.
//!
//! A part is written under another name and gets its own when it is whole and synced; so a stage that is begun anew
//! goes on with the parts that are not there.
//!
//! | Module | Holds |
//! |---|---|
//! | `objects` | object stores |
//! | `table` | the events table of another instance, or of PostHog |

mod objects;
mod table;

pub use objects::Objects;
pub use table::{TableExport, TableSettings};

use crate::meter::Meter;
use crate::staging::Staging;
use anyhow::{Context, bail};
use backon::{BackoffBuilder, ExponentialBuilder};
use futures_util::stream::{self, StreamExt};
use millrace_sources::{Export, FetchError, Part};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(120);
/// How often a part is tried in a row before the stage gives up.
const TRIES_MAX: usize = 12;

/// What a stage of fetching did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Parts that were there already.
    pub known: usize,
    /// Parts that were fetched now.
    pub new: usize,
    /// Bytes of these.
    pub bytes: u64,
}

/// Fetches all parts of an export that are not there.
///
/// # Errors
/// When a part cannot be had, or the folder cannot be written. Parts that were fetched stay.
pub async fn run(
    export: &dyn Export,
    staging: &Staging,
    http: &reqwest::Client,
    meter: &Meter,
) -> anyhow::Result<Fetched> {
    let folder = staging.data();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let (known, missing): (Vec<_>, Vec<_>) = export
        .parts()
        .into_iter()
        .partition(|part| folder.join(&part.name).exists());
    let mut fetched = Fetched {
        known: known.len(),
        ..Fetched::default()
    };
    let mut parts = stream::iter(missing)
        .map(|part| {
            let one = Fetching {
                export,
                http,
                meter,
                path: folder.join(&part.name),
                part,
            };
            async move { one.run().await }
        })
        .buffered(export.parallel().max(1));
    while let Some(bytes) = parts.next().await {
        fetched.bytes += bytes?;
        fetched.new += 1;
    }
    Ok(fetched)
}

struct Fetching<'a> {
    export: &'a dyn Export,
    http: &'a reqwest::Client,
    meter: &'a Meter,
    path: PathBuf,
    part: Part,
}

impl Fetching<'_> {
    async fn run(&self) -> anyhow::Result<u64> {
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(BACKOFF_FIRST)
            .with_max_delay(BACKOFF_MAX)
            .with_max_times(TRIES_MAX)
            .with_jitter()
            .build();
        loop {
            let message = match self.once().await {
                Ok(bytes) => return Ok(bytes),
                Err(FetchError::Again { after, message }) => {
                    let Some(pause) = pauses.next() else {
                        bail!(
                            "{} could not be fetched: {message}\nRun the same command again: it goes on with this part",
                            self.part.name
                        );
                    };
                    tokio::time::sleep(after.unwrap_or(pause)).await;
                    message
                }
                Err(error) => bail!("{} could not be fetched: {error}", self.part.name),
            };
            self.meter.waits(&message);
        }
    }

    async fn once(&self) -> Result<u64, FetchError> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let mut file = Counted {
            inner: BufWriter::new(File::create(&part)?),
            bytes: 0,
            total: self.meter.bytes_read(),
        };
        self.export.fetch(self.http, &self.part, &mut file).await?;
        file.inner.flush()?;
        file.inner.get_ref().sync_all()?;
        std::fs::rename(&part, &self.path)?;
        if let Some(folder) = self.path.parent().filter(|it| *it != Path::new("")) {
            File::open(folder)?.sync_all()?;
        }
        Ok(file.bytes)
    }
}

struct Counted<'a> {
    inner: BufWriter<File>,
    bytes: u64,
    total: &'a Arc<AtomicU64>,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        self.total.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.inner.flush()
    }
}
