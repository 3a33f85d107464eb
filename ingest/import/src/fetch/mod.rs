//! The stage that fetches: an export into files of the staging folder, part by part.
//!
//! A part is written under another name and gets its own when it is whole and synced; so a stage that is begun anew
//! goes on with the parts that are not there.
//!
//! | Module | Holds |
//! |---|---|
//! | `ledger` | of what the folder has parts, and which |
//! | `part` | one part |
//! | `tries` | how often and when something is tried again |
//! | `objects` | object stores |
//! | `table` | the events table of another instance, or of PostHog |

mod ledger;
mod objects;
mod part;
mod table;
mod tries;

pub use objects::Objects;
pub use table::{TableExport, TableSettings};

use crate::meter::Meter;
use crate::staging::Staging;
use anyhow::Context;
use futures_util::stream::{self, StreamExt};
use ledger::{Ledger, State};
use millrace_sources::{Export, Part, Transfer};
use part::Fetching;
use std::path::Path;
use std::sync::Mutex;

/// What a stage of fetching did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Parts that were there already.
    pub known: usize,
    /// Parts that were fetched now.
    pub new: usize,
    /// Of these, parts that were there and have changed at the source since.
    pub changed: usize,
    /// Bytes that came now.
    pub bytes: u64,
}

/// Fetches all parts of an export that are not there.
///
/// # Errors
/// When the folder has the parts of another source, a part cannot be had, or the folder cannot be written. Parts that
/// were fetched stay.
pub async fn run(
    export: &dyn Export,
    staging: &Staging,
    transfer: &Transfer,
    meter: &Meter,
) -> anyhow::Result<Fetched> {
    let folder = staging.data();
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let ledger = Ledger::open(staging, &export.source())?;
    let mut fetched = Fetched::default();
    let mut missing = Vec::new();
    for part in export.parts() {
        match ledger.state(&folder, &part) {
            State::Known => fetched.known += 1,
            State::Changed => {
                fetched.changed += 1;
                missing.push(part);
            }
            State::Missing => missing.push(part),
        }
    }
    meter.expect_parts(missing.len() as u64);
    meter.expect(missing.iter().filter_map(|part| part.bytes).sum());
    let kept = missing
        .iter()
        .filter(|_| export.is_resumable())
        .filter_map(part::unfinished_name);
    remove_unfinished(&folder, &kept.collect::<Vec<_>>())?;
    let ledger = Mutex::new(ledger);
    let ledger = &ledger;
    let mut parts = stream::iter(missing)
        .map(|part: Part| async {
            let one = Fetching {
                export,
                transfer,
                meter,
                ledger,
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

/// Parts that were begun, and that nobody goes on with.
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
