//! The key that secrets of destinations are encrypted with: configured, or made at the first start
//! and kept in the data folder, for its owner's eyes only. Without it, secrets must be given anew.

use crate::config::Config;
use anyhow::Context;
use millrace_catalog::SecretKey;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

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

fn kept(dir: &Path) -> anyhow::Result<SecretKey> {
    let path = dir.join("secret.key");
    match std::fs::read_to_string(&path) {
        Ok(text) => SecretKey::parse(&text).with_context(|| {
            format!(
                "{} holds no key; put it back from a backup, or move it away and give the secrets \
                 of all destinations anew",
                path.display()
            )
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => make(dir, &path),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The file appears whole or not at all, and where two processes make one the first wins.
fn make(dir: &Path, path: &Path) -> anyhow::Result<SecretKey> {
    let key = SecretKey::generate().context("the system has no randomness for a new key")?;
    let temporary = dir.join(format!("secret.key.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let mut file = options.mode(0o600).open(&temporary)?;
        file.write_all(format!("{}\n", key.to_text()).as_bytes())?;
        file.sync_all()?;
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
}
