//! The fetch stage: copies an export into files of the staging folder, part by part.
//!
//! A part is written under a temporary name and gets its own when it is whole and synced; so a
//! fetch that is started again continues with the missing parts.
//!
//! | Module | Holds |
//! |---|---|
//! | `fetched_parts` | list of the parts in the folder |
//! | `part` | fetching of one part |
//! | `retries` | number of retries and pauses between them |
//! | `objects` | object stores |
//! | `table` | the events table of another instance, or of PostHog |

mod fetched_parts;
mod objects;
mod part;
mod retries;
mod table;

pub use objects::Objects;
pub use table::{TableExport, TableSettings};

use crate::staging::Staging;
use crate::stats::StageStats;
use anyhow::Context;
use fetched_parts::{FetchedParts, PartState};
use futures_util::stream::{self, StreamExt};
use millrace_sources::{Export, Part, Transfer};
use part::PartFetch;
use std::path::Path;
use std::sync::Mutex;

/// Result of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchSummary {
    /// Number of parts that were there already.
    pub known: usize,
    /// Number of parts that were fetched now.
    pub new: usize,
    /// Number of new parts that replace an older version.
    pub changed: usize,
    /// Bytes fetched now.
    pub bytes: u64,
}

/// Fetches all parts of an export that are missing in the folder.
///
/// # Errors
/// The folder has the parts of another source, a part cannot be fetched, or the folder cannot be
/// written. Parts that were fetched stay.
pub async fn run(
    export: &dyn Export,
    staging: &Staging,
    transfer: &Transfer,
    stats: &StageStats,
) -> anyhow::Result<FetchSummary> {
    let folder = staging.data();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let fetched_parts = FetchedParts::open(staging, &export.source())?;
    let mut fetched = FetchSummary::default();
    let mut missing = Vec::new();
    for part in export.parts() {
        match fetched_parts.state(&folder, &part) {
            PartState::Present => fetched.known += 1,
            PartState::Changed => {
                fetched.changed += 1;
                missing.push(part);
            }
            PartState::Missing => missing.push(part),
        }
    }
    stats.expect_parts(missing.len() as u64);
    stats.expect(missing.iter().filter_map(|part| part.bytes).sum());
    let kept = missing
        .iter()
        .filter(|_| export.is_resumable())
        .filter_map(part::unfinished_name);
    remove_unfinished(&folder, &kept.collect::<Vec<_>>())?;
    let fetched_parts = Mutex::new(fetched_parts);
    let fetched_parts = &fetched_parts;
    let mut parts = stream::iter(missing)
        .map(|part: Part| async {
            let one = PartFetch {
                export,
                transfer,
                stats,
                fetched_parts,
                folder: &folder,
                part,
            };
            one.run().await
        })
        .buffer_unordered(export.parallel().max(1));
    while let Some(bytes) = parts.next().await {
        fetched.bytes += bytes?;
        fetched.new += 1;
    }
    Ok(fetched)
}

/// Removes unfinished parts that will not be resumed.
fn remove_unfinished(folder: &Path, kept: &[String]) -> anyhow::Result<()> {
    let kept: std::collections::HashSet<_> = kept.iter().map(String::as_str).collect();
    let removed = || -> std::io::Result<()> {
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(part::UNFINISHED) && !kept.contains(&*name) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    };
    removed().with_context(|| format!("cannot clear {}", folder.display()))
}
