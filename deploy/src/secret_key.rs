//! The key that secrets of destinations are encrypted with: configured, or made at the first start
//! and kept in the data folder, for its owner's eyes only. Without it, secrets must be given anew.
//!
//! A key that was replaced stays in the file behind the new one until the next rotation, as a
//! server may still seal with it; servers read the file again before they seal, and before they
//! give a secret up.

use crate::config::Config;
use anyhow::{Context, bail};
use millrace_catalog::SecretKey;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its file, in the data folder.
const FILE: &str = "secret.key";
/// Keys from before the present one that stay in the file.
const OLDER_KEPT: usize = 1;

/// The key of this installation.
///
/// # Errors
/// When its file cannot be read or written, or holds no key.
pub fn find(config: &Config) -> anyhow::Result<SecretKey> {
    match &config.secret_key {
        Some(key) => Ok(key.clone()),
        None => {
            let path = config.data_dir.join(FILE);
            let kept = kept(&config.data_dir)?;
            Ok(kept.read_again_by(move || again(&path)))
        }
    }
}

/// The key as the file has it now; `None`, and a line in the log, if it cannot be read.
fn again(path: &Path) -> Option<SecretKey> {
    let read = read(path).and_then(|key| key.with_context(|| format!("{FILE} is gone")));
    let told = |error: &anyhow::Error| {
        let error = format!("{error:#}");
        tracing::warn!(
            error,
            "the key of secrets cannot be read again; the last one is used"
        );
    };
    read.inspect_err(told).ok()
}

/// Looks whether the key of this installation can be used, if there is one already.
///
/// # Errors
/// As [`find`].
pub fn check(config: &Config) -> anyhow::Result<()> {
    match &config.secret_key {
        Some(_) => Ok(()),
        None => read(&config.data_dir.join(FILE)).map(drop),
    }
}

/// Makes another key the one of this installation; `reseal` is given it with those before, and
/// seals all secrets with it. Then all but the latest of those before are dropped. A crash in
/// between leaves all, and is mended by doing it again.
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
            "there is no {FILE} in {}: name the folder of a server with --data-dir; the first start \
             of the organization API makes the key",
            dir.display()
        )
    };
    read(&path)?.with_context(missing)?;
    let _lock = locked(dir)?;
    let before = read(&path)?.with_context(missing)?;
    let all = if before.older_count() > OLDER_KEPT {
        // One that was cut off: no key too many is made, however often that happens.
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

/// Keeps other rotations out for as long as it is held: of two, one would write over the other's key.
fn locked(dir: &Path) -> anyhow::Result<File> {
    let opened = File::open(dir).with_context(|| format!("cannot open {}", dir.display()))?;
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
        let temporary = written(dir, key)?;
        std::fs::rename(temporary, &path)?;
        File::open(dir)?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a key to a file that nobody reads yet.
fn written(dir: &Path, key: &SecretKey) -> std::io::Result<PathBuf> {
    let temporary = dir.join(format!("{FILE}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true);
    let mut file = options.mode(0o600).open(&temporary)?;
    file.write_all(format!("{}\n", key.to_text()).as_bytes())?;
    file.sync_all()?;
    Ok(temporary)
}

fn kept(dir: &Path) -> anyhow::Result<SecretKey> {
    let path = dir.join(FILE);
    match read(&path)? {
        Some(key) => Ok(key),
        None => make(dir, &path),
    }
}

/// `None` when there is no such file.
fn read(path: &Path) -> anyhow::Result<Option<SecretKey>> {
    match std::fs::read_to_string(path) {
        Ok(text) => SecretKey::parse(&text).map(Some).with_context(|| {
            format!(
                "{} holds no key; put it back from a backup, or move it away and give the secrets \
                 of all destinations anew",
                path.display()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The file appears whole or not at all, and where two processes make one the first wins.
fn make(dir: &Path, path: &Path) -> anyhow::Result<SecretKey> {
    let key = SecretKey::generate().context("the system has no randomness for a new key")?;
    let write = || -> std::io::Result<()> {
        let temporary = written(dir, &key)?;
        let linked = std::fs::hard_link(&temporary, path);
        std::fs::remove_file(&temporary)?;
        linked?;
        File::open(dir)?.sync_all()
    };
    match write() {
        Ok(()) => Ok(key),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => kept(dir),
        Err(error) => Err(error).with_context(|| format!("cannot write {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_key_is_made_once_for_its_owners_eyes_only() {
        let dir = tempfile::TempDir::new().unwrap();
        let made = kept(dir.path()).unwrap();
        let path = dir.path().join("secret.key");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(kept(dir.path()).unwrap().to_text(), made.to_text());
        assert_eq!(make(dir.path(), &path).unwrap().to_text(), made.to_text());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::write(&path, "nonsense").unwrap();
        kept(dir.path()).unwrap_err();
    }

    #[test]
    fn the_key_before_stays_until_the_next_rotation() {
        let dir = tempfile::TempDir::new().unwrap();
        let mut before = kept(dir.path()).unwrap().to_text();
        for _ in 0..3 {
            rotate(dir.path(), |_| {
                rotate(dir.path(), |_| panic!("two at the same time")).unwrap_err();
                Ok(())
            })
            .unwrap();
            let after = kept(dir.path()).unwrap();
            assert_eq!(after.older_count(), 1);
            let first = |text: &str| text.lines().next().unwrap().to_owned();
            let expected = format!("{}\n{}", after.with_older(0).to_text(), first(&before));
            assert_eq!(after.to_text(), expected);
            before = after.to_text();
        }
    }

    #[test]
    fn a_rotation_that_was_cut_off_is_done_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let old = kept(dir.path()).unwrap().to_text();
        let cut_off = || {
            rotate(dir.path(), |_| anyhow::bail!("cut off")).unwrap_err();
            kept(dir.path()).unwrap().to_text()
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
        assert_eq!(kept(dir.path()).unwrap().to_text(), left.join("\n"));
    }
}
