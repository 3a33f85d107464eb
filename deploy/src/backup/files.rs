//! Copies of files and folders that survive a power cut.

use anyhow::{Context, bail};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Moves the backup that ClickHouse wrote to its target, maybe on another disk.
pub fn move_backup(made: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::rename(made, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let copied = copy_no_links(rustix::fs::CWD, made, to);
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

/// Copies a folder that ClickHouse wrote, and fails if there is anything but files and folders in
/// it. ClickHouse writes no links; a copy would follow one that an attacker who took its process
/// over made, to files that this process may not read. Each entry is opened without following it
/// and judged once it is open, so that it cannot be exchanged in between.
fn copy_no_links(dir: impl AsFd, from: &Path, to: &Path) -> anyhow::Result<()> {
    // Without NONBLOCK, opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = openat(dir, from, flags, Mode::empty())
        .with_context(|| format!("cannot open {}, or it is a link", from.display()))?;
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => {
            std::io::copy(&mut File::from(opened), &mut File::create_new(to)?)
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        }
        FileType::Directory => {
            fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
            for entry in Dir::read_from(&opened)? {
                let entry = entry?;
                let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
                if name != Path::new(".") && name != Path::new("..") {
                    copy_no_links(&opened, name, &to.join(name))?;
                }
            }
        }
        _ => bail!(
            "{} is no file and no folder; it is not copied",
            from.display()
        ),
    }
    Ok(())
}

/// Copies a file, or a folder with everything in it.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
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
pub fn make_durable(dir: &Path) -> anyhow::Result<()> {
    let synced = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
    synced.with_context(|| format!("cannot sync the disk of {}", dir.display()))
}

/// Text of a path, as ClickHouse needs it.
pub fn utf8(path: &Path) -> anyhow::Result<&str> {
    let utf8 = path.to_str();
    utf8.with_context(|| format!("{} is not UTF-8, which ClickHouse needs", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_with_a_link_or_a_pipe_in_it_is_not_copied() {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("part");
        let copy_to = |name: &str| copy_no_links(rustix::fs::CWD, &part, &home.path().join(name));
        fs::create_dir_all(part.join("data/events")).unwrap();
        fs::write(part.join("data/events/all.bin"), "a").unwrap();
        copy_to("sound").unwrap();
        let copied = fs::read_to_string(home.path().join("sound/data/events/all.bin")).unwrap();
        assert_eq!(copied, "a");
        let added = part.join("data/events/up");
        std::os::unix::fs::symlink(home.path(), &added).unwrap();
        let error = format!("{:#}", copy_to("link").unwrap_err());
        assert!(error.contains("cannot open up, or it is a link"), "{error}");
        fs::remove_file(&added).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &added, Mode::RUSR).unwrap();
        let error = copy_to("pipe").unwrap_err().to_string();
        assert!(error.contains("up is no file"), "{error}");
    }
}
