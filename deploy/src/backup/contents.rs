//! Parts of a backup, each named as in the data folder.

use super::files::{copy, make_durable};
use crate::data_dir::{DEAD_LETTERS, FORMER_DEAD_LETTERS};
use anyhow::{Context, bail};
use std::fs;
use std::path::Path;

/// ClickHouse's copy of its data.
pub const CLICKHOUSE: &str = "clickhouse";
/// The catalog.
pub const CATALOG: &str = "catalog.db";
/// Files and folders that are copied unchanged, if they exist.
const KEPT: [&str; 4] = [
    "secret.key",
    "credentials.json",
    DEAD_LETTERS,
    FORMER_DEAD_LETTERS,
];
/// File that marks a complete backup; it has the version that made it.
const COMPLETE_MARK: &str = "whole";

/// Copies the files and folders of [`KEPT`] that are there.
pub fn copy_kept(from: &Path, to: &Path) -> anyhow::Result<()> {
    for name in KEPT {
        copy(&from.join(name), &to.join(name))?;
    }
    Ok(())
}

/// Fails if a part of a backup is missing: ClickHouse may be on another machine, or somebody has
/// removed the part.
pub fn require_part(backup: &Path, part: &str) -> anyhow::Result<()> {
    if backup.join(part).exists() {
        return Ok(());
    }
    bail!("{} is not whole: it lacks {part}", backup.display())
}

/// Fails unless a backup is complete.
pub fn require_complete(backup: &Path) -> anyhow::Result<()> {
    if !backup.join(COMPLETE_MARK).exists() {
        bail!(
            "{} holds no whole backup; give a folder that `millrace backup` called whole",
            backup.display()
        );
    }
    require_part(backup, CLICKHOUSE)?;
    require_part(backup, CATALOG)
}

/// Marks a backup as complete once all its parts are on disk.
pub fn mark_complete(backup: &Path) -> anyhow::Result<()> {
    make_durable(backup)?;
    let version = concat!(env!("CARGO_PKG_VERSION"), "\n");
    let mark = backup.join(COMPLETE_MARK);
    fs::write(&mark, version).with_context(|| format!("cannot write {}", mark.display()))?;
    make_durable(backup)
}
