//! Key that secrets of destinations are encrypted with: configured, or generated at the first start
//! and kept in the data folder, readable by its owner only. Without it, secrets must be entered
//! anew.
//!
//! A replaced key stays in the file behind the new one until the next rotation, as a server may
//! still seal with it; servers read the file again before they seal a secret, and before they
//! report that one cannot be opened.

use crate::config::Config;
use crate::locked_file::LockedFile;
use anyhow::{Context, bail};
use millrace_exports::SecretKey;
use millrace_rows::RareLog;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the key's file, in the data folder.
pub const FILE: &str = "secret.key";
/// Older keys that stay in the file.
const OLDER_KEPT: usize = 1;
/// Name of a temporary file, around the number of its process: one that nobody gives a copy of
/// their own.
const TEMPORARY_PREFIX: &str = ".secret.key.";
const TEMPORARY_SUFFIX: &str = ".tmp";
/// Age from which a temporary file belongs to no process that still writes it.
const LEFTOVER_AGE: Duration = Duration::from_secs(60);

/// Key of this installation; `None` if there is none yet.
///
/// # Errors
/// When its file cannot be read, or holds no key.
pub fn known(config: &Config) -> anyhow::Result<Option<SecretKey>> {
    match &config.secret_key {
        Some(key) => Ok(Some(key.clone())),
        None => read(&config.data_dir.join(FILE)),
    }
}

/// Key of this installation; a missing file is created.
///
/// # Errors
/// When its file cannot be read or written, or holds no key.
pub fn find(config: &Config) -> anyhow::Result<SecretKey> {
    match &config.secret_key {
        Some(key) => Ok(key.clone()),
        None => {
            let path = config.data_dir.join(FILE);
            remove_leftovers(&config.data_dir);
            let key = load_or_create(&config.data_dir)?;
            let failures = RareLog::default();
            Ok(key.with_reload(move || reload(&path, &failures)))
        }
    }
}

/// Reads the key again; `None`, and a line in the log, if the file cannot be read.
fn reload(path: &Path, failures: &RareLog) -> Option<SecretKey> {
    let read = read(path).and_then(|key| key.with_context(|| format!("{FILE} is gone")));
    let told = |error: &anyhow::Error| {
        let error = format!("{error:#}");
        if failures.is_due(&error, Instant::now()) {
            tracing::warn!(
                error,
                "the key of secrets cannot be read again; the last one is used"
            );
        }
    };
    read.inspect_err(told).ok()
}

/// Checks that the key of this installation can be used, if there is one already.
///
/// # Errors
/// As [`find`].
pub fn check(config: &Config) -> anyhow::Result<()> {
    known(config).map(drop)
}

/// Replaces the key of this installation; `reseal` gets the new key with the older ones, and seals
/// all secrets with it. Then all but the latest older key are dropped. A crash in between keeps all
/// of them, and another rotation completes it.
///
/// # Errors
/// When another one does it at the same time, the file cannot be written, or what `reseal` says.
pub fn rotate(
    dir: &Path,
    reseal: impl FnOnce(&SecretKey) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = dir.join(FILE);
    let missing = || {
        format!(
            "there is no {FILE} in {}: name the folder of a server with --data-dir; the first \
             start of the organization API creates the key",
            dir.display()
        )
    };
    read(&path)?.with_context(missing)?;
    let _lock = lock_rotation(dir)?;
    let before = read(&path)?.with_context(missing)?;
    let all = if before.older_count() > OLDER_KEPT {
        // Completes a rotation that was cut off, without another key, however often that happens.
        before
    } else {
        before
            .successor()
            .context("the system has no randomness for a new key")?
    };
    replace(dir, &all)?;
    reseal(&all)?;
    replace(dir, &all.with_older(OLDER_KEPT))
}

/// Locks rotation while it is held: of two rotations, one would overwrite the other's key.
fn lock_rotation(dir: &Path) -> anyhow::Result<LockedFile> {
    let opened = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
    let opened = LockedFile(opened);
    match opened.try_lock() {
        Ok(()) => Ok(opened),
        Err(TryLockError::WouldBlock) => bail!(
            "another rotation is under way in {}; wait until it is done",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", dir.display()))
        }
    }
}

fn replace(dir: &Path, key: &SecretKey) -> anyhow::Result<()> {
    let path = dir.join(FILE);
    let write = || -> std::io::Result<()> {
        let temporary = write_temporary(dir, key)?;
        std::fs::rename(temporary, &path)?;
        File::open(dir)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a key to a temporary file; returns its path.
fn write_temporary(dir: &Path, key: &SecretKey) -> std::io::Result<PathBuf> {
    let process = std::process::id();
    let temporary = dir.join(format!("{TEMPORARY_PREFIX}{process}{TEMPORARY_SUFFIX}"));
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let mut file = options.mode(0o600).open(&temporary)?;
    file.write_all(format!("{}\n", key.to_text()).as_bytes())?;
    file.sync_all()?;
    Ok(temporary)
}

/// Removes temporary files that a crash left: each has a key. One that cannot be removed does no
/// harm.
fn remove_leftovers(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| {
            let process = name.strip_prefix(TEMPORARY_PREFIX)?;
            process.strip_suffix(TEMPORARY_SUFFIX)?.parse::<u32>().ok()
        });
        let age = entry.metadata().and_then(|file| file.modified());
        let age = age.ok().and_then(|modified| modified.elapsed().ok());
        if process.is_some() && age.is_some_and(|age| age >= LEFTOVER_AGE) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn load_or_create(dir: &Path) -> anyhow::Result<SecretKey> {
    let path = dir.join(FILE);
    match read(&path)? {
        Some(key) => Ok(key),
        None => create(dir, &path),
    }
}

/// Reads the key's file; `None` when there is none.
fn read(path: &Path) -> anyhow::Result<Option<SecretKey>> {
    match std::fs::read_to_string(path) {
        Ok(text) => SecretKey::parse(&text).map(Some).with_context(|| {
            format!(
                "{} holds no key; put it back from a backup, or move it away and give the secrets \
                 of all destinations again",
                path.display()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Creates the key's file atomically; of two processes that do so, the first wins.
fn create(dir: &Path, path: &Path) -> anyhow::Result<SecretKey> {
    let key = SecretKey::generate().context("the system has no randomness for a new key")?;
    let write = || -> std::io::Result<()> {
        let temporary = write_temporary(dir, &key)?;
        let linked = std::fs::hard_link(&temporary, path);
        std::fs::remove_file(&temporary)?;
        linked?;
        File::open(dir)?.sync_all()
    };
    match write() {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => load_or_create(dir),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_created_once_and_readable_by_its_owner_only() {
        let dir = tempfile::TempDir::new().unwrap();
        let made = load_or_create(dir.path()).unwrap();
        let path = dir.path().join("secret.key");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            load_or_create(dir.path()).unwrap().to_text(),
            made.to_text()
        );
        assert_eq!(create(dir.path(), &path).unwrap().to_text(), made.to_text());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::write(&path, "nonsense").unwrap();
        load_or_create(dir.path()).unwrap_err();
    }

    #[test]
    fn temporary_files_that_a_crash_left_are_removed() {
        let dir = tempfile::TempDir::new().unwrap();
        let table = [
            (".secret.key.1.tmp", true, false),
            (".secret.key.4194304.tmp", true, false),
            (".secret.key.2.tmp", false, true),
            (".secret.key.tmp", true, true),
            // Copies of an operator.
            ("secret.key.1", true, true),
            ("secret.key.20261128", true, true),
            ("secret.key", true, true),
            ("secret.key.old", true, true),
            ("secret.keys.1", true, true),
        ];
        for (name, is_old, _) in table {
            let file = File::create(dir.path().join(name)).unwrap();
            if is_old {
                let now = file.metadata().unwrap().modified().unwrap();
                file.set_modified(now - 2 * LEFTOVER_AGE).unwrap();
            }
        }
        remove_leftovers(dir.path());
        for (name, _, stays) in table {
            assert_eq!(dir.path().join(name).exists(), stays, "{name}");
        }
    }

    #[test]
    fn a_replaced_key_stays_until_the_next_rotation() {
        let dir = tempfile::TempDir::new().unwrap();
        let mut before = load_or_create(dir.path()).unwrap().to_text();
        for _ in 0..3 {
            rotate(dir.path(), |_| {
                rotate(dir.path(), |_| panic!("two at the same time")).unwrap_err();
                Ok(())
            })
            .unwrap();
            let after = load_or_create(dir.path()).unwrap();
            assert_eq!(after.older_count(), 1);
            let first = |text: &str| text.lines().next().unwrap().to_owned();
            let expected = format!("{}\n{}", after.with_older(0).to_text(), first(&before));
            assert_eq!(after.to_text(), expected);
            before = after.to_text();
        }
    }

    #[test]
    fn a_rotation_that_was_cut_off_is_completed_by_the_next() {
        let dir = tempfile::TempDir::new().unwrap();
        let old = load_or_create(dir.path()).unwrap().to_text();
        let cut_off = || {
            rotate(dir.path(), |_| anyhow::bail!("cut off")).unwrap_err();
            load_or_create(dir.path()).unwrap().to_text()
        };
        let first = cut_off();
        assert!(first.ends_with(&old) && first != old);
        let second = cut_off();
        assert!(second.ends_with(&first), "what is sealed by then opens");
        assert_eq!(cut_off(), second, "no more keys are made");
        rotate(dir.path(), |key| {
            assert_eq!(key.to_text(), second);
            Ok(())
        })
        .unwrap();
        let left: Vec<_> = second.lines().take(2).collect();
        assert_eq!(
            load_or_create(dir.path()).unwrap().to_text(),
            left.join("\n")
        );
    }
}
