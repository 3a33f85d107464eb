//! Copies of files and folders that survive a power cut. They keep modes, as a rename does, and no
//! times.

use anyhow::{Context, anyhow, ensure};
use rustix::fs::{Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bits of a mode that a copy of ClickHouse's files keeps. One that sets the user is left out: the
/// copy belongs to this user, whoever wrote its contents.
const MODE_BITS: u32 = 0o777;

/// Moves the backup that ClickHouse wrote to its target, maybe on another disk.
pub fn move_backup(made: &Path, to: &Path) -> anyhow::Result<()> {
    match fs::rename(made, to) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {
            let copied = copy_no_links(rustix::fs::CWD, made, made, to);
            // Copied or not, the original is not needed any more.
            let removed = fs::remove_dir_all(made);
            copied?;
            removed.with_context(|| format!("cannot remove {}; delete it", made.display()))
        }
        moved => {
            moved.with_context(|| {
                format!(
                    "cannot move {}, which ClickHouse wrote, to {}",
                    made.display(),
                    to.display()
                )
            })?;
            require_folder(to)
        }
    }
}

/// Fails unless a moved backup is a folder: a restore would let its ClickHouse read what a link
/// leads to.
fn require_folder(path: &Path) -> anyhow::Result<()> {
    let found = fs::symlink_metadata(path);
    let found = found.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        found.is_dir(),
        "{} is a link or a file, not a folder that ClickHouse wrote",
        path.display()
    );
    Ok(())
}

/// Copies a file or folder that ClickHouse wrote, named `name` in `dir`, from the path `from`.
/// Fails if there is anything but files and folders in it. ClickHouse writes no links; a copy would
/// follow one that an attacker who took its process over made, to files that this process may not
/// read. Each entry is opened without following it and checked once it is open, so that it cannot
/// be exchanged in between.
fn copy_no_links(dir: impl AsFd, name: &Path, from: &Path, to: &Path) -> anyhow::Result<()> {
    let opened = open_no_link(dir, name, from)?;
    let found = fstat(&opened).with_context(|| format!("cannot read {}", from.display()))?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => copy_file(opened, from, to)?,
        FileType::Directory => copy_entries(&opened, from, to)?,
        _ => return Err(is_something_else(from)),
    }
    // Last, as nothing can be written into a folder without the right to write.
    fs::set_permissions(to, Permissions::from_mode(found.st_mode & MODE_BITS))
        .with_context(|| format!("cannot set the mode of {}", to.display()))
}

fn open_no_link(dir: impl AsFd, name: &Path, from: &Path) -> anyhow::Result<OwnedFd> {
    // Without NONBLOCK, opening a pipe would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => anyhow!(
            "{} is a link, and ClickHouse writes none; it is not copied",
            from.display()
        ),
        // A socket.
        Errno::NXIO => is_something_else(from),
        error => anyhow::Error::new(error).context(format!("cannot open {}", from.display())),
    })
}

fn is_something_else(path: &Path) -> anyhow::Error {
    anyhow!(
        "{} is neither a file nor a folder; it is not copied",
        path.display()
    )
}

fn copy_file(opened: OwnedFd, from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(to);
    let mut made = made.with_context(|| format!("cannot create {}", to.display()))?;
    let copied = io::copy(&mut File::from(opened), &mut made).map(drop);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

fn copy_entries(opened: &OwnedFd, from: &Path, to: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().mode(0o700).create(to);
    made.with_context(|| format!("cannot create {}", to.display()))?;
    let unreadable = || format!("cannot read {}", from.display());
    for entry in Dir::read_from(opened).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
        if name != Path::new(".") && name != Path::new("..") {
            copy_no_links(opened, name, &from.join(name), &to.join(name))?;
        }
    }
    Ok(())
}

/// Copies a file, or a folder with everything in it; files that are not there are left out.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        return match fs::copy(from, to) {
            // The operator has removed the file meanwhile; a link that leads nowhere is there.
            Err(error)
                if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(from).is_err() =>
            {
                Ok(())
            }
            copied => copied
                .map(drop)
                .with_context(|| format!("cannot copy {} to {}", from.display(), to.display())),
        };
    }
    let unreadable = || format!("cannot read {}", from.display());
    let mode = fs::metadata(from).with_context(unreadable)?.permissions();
    match DirBuilder::new().mode(0o700).create(to) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made.with_context(|| format!("cannot create {}", to.display()))?,
    }
    for entry in fs::read_dir(from).with_context(unreadable)? {
        let entry = entry.with_context(unreadable)?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    fs::set_permissions(to, mode)
        .with_context(|| format!("cannot set the mode of {}", to.display()))
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
    use std::path::PathBuf;
    use tempfile::TempDir;

    fn copy_made(from: &Path, to: &Path) -> anyhow::Result<()> {
        copy_no_links(rustix::fs::CWD, from, from, to)
    }

    /// Folder with a file in a folder in a folder.
    fn part() -> (TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("part");
        fs::create_dir_all(part.join("data/events")).unwrap();
        fs::write(part.join("data/events/all.bin"), "a").unwrap();
        (home, part)
    }

    #[test]
    fn errors_name_the_whole_path_and_its_fault() {
        let (home, part) = part();
        let odd = part.join("data/events/up");
        let node = |kind| {
            rustix::fs::mknodat(rustix::fs::CWD, &odd, kind, Mode::RUSR, 0).unwrap();
        };
        let table: [(&str, &dyn Fn()); 3] = [
            ("is a link, and ClickHouse writes none", &|| {
                std::os::unix::fs::symlink(home.path(), &odd).unwrap();
            }),
            ("is neither a file nor a folder", &|| node(FileType::Fifo)),
            ("is neither a file nor a folder", &|| node(FileType::Socket)),
        ];
        for (number, (fault, make)) in table.into_iter().enumerate() {
            make();
            let to = home.path().join(format!("to{number}"));
            let error = format!("{:#}", copy_made(&part, &to).unwrap_err());
            let expected = format!("{} {fault}", odd.display());
            assert!(error.starts_with(&expected), "{error}");
            assert!(!to.join("data/events/up").exists());
            fs::remove_file(&odd).unwrap();
        }
        let (all, to) = (part.join("data/events/all.bin"), home.path().join("to"));
        copy_made(&part, &to).unwrap();
        fs::write(home.path().join("file"), "").unwrap();
        let file = home.path().join("file");
        let table = [
            (
                &part,
                &to,
                format!("cannot create {}: File exists", to.display()),
            ),
            (
                &all,
                &file,
                format!("cannot create {}: File exists", file.display()),
            ),
            (
                &odd,
                &file,
                format!("cannot open {}: No such file", odd.display()),
            ),
        ];
        for (from, to, expected) in table {
            let error = format!("{:#}", copy_made(from, to).unwrap_err());
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_backup_that_is_a_link_is_not_taken_for_a_folder() {
        let (home, part) = part();
        let [link, moved, to] = ["link", "moved", "to"].map(|name| home.path().join(name));
        std::os::unix::fs::symlink(&part, &link).unwrap();
        let error = move_backup(&link, &moved).unwrap_err().to_string();
        let expected = format!("{} is a link or a file", moved.display());
        assert!(error.starts_with(&expected), "{error}");
        move_backup(&part, &to).unwrap();
        assert!(to.join("data/events/all.bin").exists());
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn contents_and_modes_of_files_and_folders_are_kept() {
        // A folder that may not be written is filled all the same. No copy sets its user.
        let modes = [
            ("data/events/all.bin", 0o4640, 0o640),
            ("data/events/other.bin", 0o400, 0o400),
            ("data/events", 0o500, 0o500),
            ("data", 0o2750, 0o750),
        ];
        let (home, part) = part();
        fs::write(part.join("data/events/other.bin"), "b").unwrap();
        for (name, set, _) in modes {
            set_mode(&part.join(name), set);
        }
        let to = home.path().join("to");
        copy_made(&part, &to).unwrap();
        for (name, _, kept) in modes {
            assert_eq!(mode(&to.join(name)), kept, "{name}");
        }
        assert_eq!(fs::read(to.join("data/events/all.bin")).unwrap(), b"a");
        assert_eq!(fs::read(to.join("data/events/other.bin")).unwrap(), b"b");
        // So are those of the server's own files.
        let copied = home.path().join("copied");
        copy(&to, &copied).unwrap();
        for (name, _, kept) in modes {
            assert_eq!(mode(&copied.join(name)), kept, "{name}");
        }
        for made in [&part, &to, &copied] {
            // Otherwise they could not be deleted.
            set_mode(&made.join("data/events"), 0o700);
        }
    }

    #[test]
    fn a_file_that_is_removed_meanwhile_is_left_out_and_a_dead_link_is_reported() {
        let (home, part) = part();
        let (gone, to) = (part.join("gone"), home.path().join("to"));
        copy(&gone, &to).unwrap();
        assert!(!to.exists());
        std::os::unix::fs::symlink("nowhere", &gone).unwrap();
        let error = format!("{:#}", copy(&gone, &to).unwrap_err());
        let expected = format!("cannot copy {} to {}: ", gone.display(), to.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
