//! The key that secrets of destinations are encrypted with: configured, or made at the first start
//! and kept in the data folder, for its owner's eyes only. Without it, secrets must be given anew.

use crate::config::Config;
use anyhow::Context;
use millrace_catalog::SecretKey;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its file, in the data folder.
const FILE: &str = "secret.key";

/// The key of this installation.
///
/// # Errors
/// When its file cannot be read or written, or holds no key.
pub fn find(config: &Config) -> anyhow::Result<SecretKey> {
    match &config.secret_key {
        Some(key) => Ok(key.clone()),
        None => kept(&config.data_dir),
    }
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

/// Makes another key the one of this installation; `reseal` is given it with the one before,
/// and seals all secrets with it. A crash in between leaves both, and is mended by doing it again.
///
/// # Errors
/// When the file cannot be written, or what `reseal` says.
pub fn rotate(
    dir: &Path,
    reseal: impl FnOnce(&SecretKey) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let before = read(&dir.join(FILE))?.with_context(|| {
        format!(
            "there is no {FILE} in {}: name the folder of a server with --data-dir; the first start \
             of the organization API makes the key",
            dir.display()
        )
    })?;
    let both = if before.is_alone() {
        before
            .successor()
            .context("the system has no randomness for a new key")?
    } else {
        before
    };
    replace(dir, &both)?;
    reseal(&both)?;
    replace(dir, &both.alone())
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
    fn a_rotation_that_was_cut_off_is_done_again() {
        let dir = tempfile::TempDir::new().unwrap();
        let old = kept(dir.path()).unwrap();
        rotate(dir.path(), |_| anyhow::bail!("cut off")).unwrap_err();
        let both = kept(dir.path()).unwrap();
        assert!(!both.is_alone() && both.to_text().contains(&old.to_text()));
        rotate(dir.path(), |key| {
            assert_eq!(key.to_text(), both.to_text(), "no third key is made");
            Ok(())
        })
        .unwrap();
        let new = kept(dir.path()).unwrap();
        assert_eq!(new.to_text(), both.alone().to_text());
        assert_ne!(new.to_text(), old.to_text());
    }
}
