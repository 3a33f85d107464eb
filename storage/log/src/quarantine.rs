//! Quarantine: damaged bytes are kept for inspection.

use crate::fs::{File, Fs, is_out_of_space, make_dir};
use crate::rewrite::copy_range;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

const DIR_NAME: &str = "quarantine";
const TEMPORARY_NAME: &str = "quarantine.tmp";

/// Copies a damaged range to `quarantine/<segment>-<start>-<end>.bin`, once; `None` if the disk is
/// full, which must not keep the log from opening.
pub(crate) fn keep(
    fs: &dyn Fs,
    log_dir: &Path,
    segment: u64,
    file: &dyn File,
    damaged: &Range<u64>,
) -> io::Result<Option<PathBuf>> {
    let dir = log_dir.join(DIR_NAME);
    let name = format!("{segment:020}-{}-{}.bin", damaged.start, damaged.end);
    let path = dir.join(name);
    // Renamed into place only when durable, so an existing copy is whole.
    if fs.open(&path).is_ok() {
        return Ok(Some(path));
    }
    match copy(fs, &dir, &path, file, damaged) {
        Ok(()) => Ok(Some(path)),
        Err(error) if is_out_of_space(&error) => {
            let _ = fs.unlink(&dir.join(TEMPORARY_NAME));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn copy(
    fs: &dyn Fs,
    dir: &Path,
    path: &Path,
    file: &dyn File,
    damaged: &Range<u64>,
) -> io::Result<()> {
    make_dir(fs, dir)?;
    let temporary = dir.join(TEMPORARY_NAME);
    let to = fs.create(&temporary)?;
    to.allocate(0..damaged.end - damaged.start)?;
    copy_range(file, &*to, damaged.clone(), 0)?;
    to.sync_data()?;
    fs.rename(&temporary, path)?;
    fs.sync_dir(dir)
}
