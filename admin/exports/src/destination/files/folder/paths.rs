//! Files below a folder: opened, read, listed and deleted by paths, of which none leads out of it.

use super::super::names::TEMPORARY_PREFIX;
use bytes::Bytes;
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Largest number of bytes that are read of a file; only manifests are read.
const READ_BYTES_MAX: u64 = 64 << 20;
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o750);

/// Splits a key into its folder and its name.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// Opens a folder below the root, name by name; creates missing ones if `make` is true.
pub(super) fn open_folder(root: &Path, folder: &str, make: bool) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut opened = fs::open(root, flags, Mode::empty())?;
    for name in folder.split('/').filter(|name| !name.is_empty()) {
        let below = beneath(&opened, name, flags, Mode::empty());
        opened = match below {
            Err(error) if make && error == Errno::NOENT => {
                match fs::mkdirat(&opened, name, FOLDER_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                fs::fsync(&opened)?;
                beneath(&opened, name, flags, Mode::empty())?
            }
            below => below?,
        };
    }
    Ok(opened)
}

/// Opens a name in a folder, and nothing outside of it.
pub(super) fn beneath(
    folder: &OwnedFd,
    name: &str,
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    fs::openat2(folder, name, flags | OFlags::CLOEXEC, mode, resolve)
}

/// Reads a file as a whole.
pub(super) fn read_file(root: &Path, key: &str) -> io::Result<Bytes> {
    let (folder, name) = split(key);
    let folder = open_folder(root, folder, false)?;
    // Otherwise opening a pipe that somebody put there would block forever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    let file = File::from(beneath(&folder, name, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// Lists the keys that begin with a prefix, and the temporary files of such keys.
pub(super) fn list(root: &Path, key_prefix: &str) -> io::Result<Vec<String>> {
    let (folder, stem) = split(key_prefix);
    let opened = open_folder(root, folder, false)?;
    let hidden = format!("{TEMPORARY_PREFIX}{stem}");
    let mut keys = Vec::new();
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        if name.starts_with(stem) || name.starts_with(&hidden) {
            let slash = if folder.is_empty() { "" } else { "/" };
            keys.push(format!("{folder}{slash}{name}"));
        }
    }
    Ok(keys)
}

/// Deletes a file, and syncs its folder.
pub(super) fn delete(root: &Path, key: &str) -> io::Result<()> {
    let (folder, name) = split(key);
    let folder = open_folder(root, folder, false)?;
    fs::unlinkat(&folder, name, AtFlags::empty())?;
    fs::fsync(&folder)?;
    Ok(())
}
