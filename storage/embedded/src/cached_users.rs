//! Users as of the last change of their file, for the login server and for the gate.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::QueryKey;
use crate::names::{EXPORT, QUERY};
use crate::users_file::{Credential, FILE_NAME, Login, UsersFile, token_of};

/// Users of one engine.
pub(crate) struct CachedUsers {
    dir: PathBuf,
    query_key: QueryKey,
    cached: Mutex<Option<(Version, UsersFile)>>,
}

/// Version of the file. Each change is another file, with another number: two of them may come
/// within one tick of the clock.
#[derive(Debug, Eq, PartialEq)]
struct Version {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

// === impl CachedUsers ===

impl CachedUsers {
    /// Users of a folder, and those whom the program logs in as.
    pub(crate) fn new(dir: PathBuf, query_key: QueryKey) -> Self {
        Self {
            dir,
            query_key,
            cached: Mutex::new(None),
        }
    }

    /// Checks a name and a password.
    pub(crate) fn login(&self, name: &str, password: &str) -> Option<Login> {
        if name == QUERY || name == EXPORT {
            let token = token_of(password);
            let login = match name {
                EXPORT => Login::Export { token },
                _ => Login::Project { token },
            };
            return self.query_key.accepts(password).then_some(login);
        }
        self.with_users(|users| users.login(name, password))
            .flatten()
    }

    /// Returns true if somebody who logged in by this could still do so.
    pub(crate) fn accepts(&self, credential: &Credential) -> bool {
        self.with_users(|users| users.accepts(credential))
            .unwrap_or(false)
    }

    /// Asks the file as it is now; `None` if it cannot be read.
    fn with_users<T>(&self, ask: impl FnOnce(&UsersFile) -> T) -> Option<T> {
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let file = std::fs::metadata(self.dir.join(FILE_NAME));
        let version = file.ok().map(|file| Version::of(&file));
        let is_current = match (&*cached, &version) {
            (Some((known, _)), Some(version)) => known == version,
            _ => false,
        };
        if !is_current {
            *cached = match UsersFile::load(&self.dir) {
                Ok(users) => version.map(|version| (version, users)),
                Err(error) => {
                    // Nobody logs in by a file that may have lost a user.
                    tracing::error!("{error}");
                    None
                }
            };
        }
        cached.as_ref().map(|(_, users)| ask(users))
    }
}

// === impl Version ===

impl Version {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            bytes: file.len(),
            modified: file.modified().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UsersFileError;

    #[test]
    fn changes_within_one_tick_of_the_clock_are_seen() {
        let home = tempfile::tempdir().unwrap();
        let users = CachedUsers::new(home.path().to_owned(), QueryKey::of("own"));
        let mut last = None;
        for _ in 0..20 {
            let changed = UsersFile::change(home.path(), |users| {
                Ok::<_, UsersFileError>(users.rotate("reader"))
            });
            let password = changed.unwrap();
            assert_eq!(users.login("reader", &password), Some(Login::User));
            let credential = Credential::of("reader", &password).unwrap();
            assert!(users.accepts(&credential));
            if let Some((password, credential)) = last.replace((password, credential)) {
                assert_eq!(users.login("reader", &password), None);
                assert!(!users.accepts(&credential));
            }
        }
        std::fs::write(home.path().join(FILE_NAME), "broken").unwrap();
        let (password, credential) = last.unwrap();
        assert_eq!(users.login("reader", &password), None);
        assert!(!users.accepts(&credential));
    }
}
