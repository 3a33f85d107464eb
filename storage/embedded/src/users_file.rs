//! File of the engine's users whose passwords change while it runs: hashes of passwords, readable
//! by its owner only.
//!
//! It is `users.json` in a folder of its own, as the engine's process may read that folder and
//! nothing around it. Passwords are random and long, so that a plain SHA-256 of one tells nothing.
//! Processes that change it take turns, by a lock of the folder.
//!
//! The password of a project's user begins with the project's id, and a *token* is computed from
//! it. The login server hands the token to the engine, whose row filters look the hash of the
//! engine's user and the token up in the table of tokens. A statement can print its own token, so
//! one is of no use to another user of the engine.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::names::PROJECT;

/// Name of the file.
pub(crate) const FILE_NAME: &str = "users.json";

/// Users and the hashes of their passwords.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct UsersFile {
    /// By name: `admin`, `reader`, and `project_<id>` of each project that has a user.
    users: BTreeMap<String, UserRecord>,
}

/// One user.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct UserRecord {
    /// SHA-256 of the password, as hexadecimal digits.
    password_sha256: String,
}

/// Reason that the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UsersFileError {
    /// It cannot be read or written.
    #[error("cannot use {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Underlying error.
        source: io::Error,
    },
    /// It is not such a file.
    #[error("{path} is not a file of ClickHouse users ({source}); move it away and rotate them")]
    Format {
        /// The file.
        path: PathBuf,
        /// Underlying error.
        source: serde_json::Error,
    },
}

/// User that a password was accepted for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Login {
    /// A user of that name.
    User,
    /// The user of a project, whose rows this token shows.
    Project {
        /// Text that nobody can make up.
        token: String,
    },
    /// The user of exports, for the project whose rows this token shows.
    Export {
        /// Text that nobody can make up.
        token: String,
    },
}

/// Password by which somebody logged in, as its hash, with the name in the file.
#[derive(Debug)]
pub(crate) struct Credential {
    name: String,
    password_sha256: String,
}

/// Name of a project's user.
#[must_use]
pub fn project_user(project_id: i64) -> String {
    format!("{PROJECT}_{project_id}")
}

/// New random password of a project's user.
#[must_use]
pub fn project_password(project_id: i64) -> String {
    format!("{project_id}_{}", Uuid::new_v4().simple())
}

/// Hash of a password, as the file of users and ClickHouse's own users have it.
#[must_use]
pub fn password_hash(password: &str) -> String {
    hex(&Sha256::digest(password.as_bytes()))
}

/// Hash under which the table of tokens holds the project of a password, by which one logs in as
/// this user of the engine.
#[must_use]
pub fn token_hash(user: &str, password: &str) -> String {
    let text = format!("{user}:{}", token_of(password));
    hex(&Sha256::digest(text.as_bytes())).to_ascii_uppercase()
}

/// Token that belongs to a password.
pub(crate) fn token_of(password: &str) -> String {
    hex(&Sha256::digest(format!("token:{password}").as_bytes()))
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

// === impl UsersFile ===

impl UsersFile {
    /// Reads the file of a folder; without one there are no users.
    ///
    /// # Errors
    /// When the file exists and cannot be read or parsed.
    pub fn load(dir: &Path) -> Result<Self, UsersFileError> {
        let path = dir.join(FILE_NAME);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map_err(|source| UsersFileError::Format { path, source }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(UsersFileError::Io { path, source }),
        }
    }

    /// Changes the file of a folder, which is created if missing, atomically and durably. Other
    /// processes that change it wait meanwhile. A change that fails leaves the file as it was.
    ///
    /// # Errors
    /// When the folder cannot be read or written; and those of the change.
    pub fn change<T, E: From<UsersFileError>>(
        dir: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let unusable = |source| UsersFileError::Io {
            path: dir.to_owned(),
            source,
        };
        // Held until the change is stored.
        let _lock = lock(dir).map_err(unusable)?;
        let before = Self::load(dir)?;
        let mut users = before.clone();
        let changed = change(&mut users)?;
        if users != before || !dir.join(FILE_NAME).exists() {
            users.store(dir)?;
        }
        Ok(changed)
    }

    /// Replaces the file.
    fn store(&self, dir: &Path) -> Result<(), UsersFileError> {
        let path = dir.join(FILE_NAME);
        let text = serde_json::to_string_pretty(self);
        let written = text
            .map_err(io::Error::other)
            .and_then(|text| replace(dir, &path, &text));
        written.map_err(|source| UsersFileError::Io { path, source })
    }

    /// Names of all users, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    /// Returns true if the user exists and has this password.
    #[must_use]
    pub fn has_password(&self, name: &str, password: &str) -> bool {
        self.users.get(name).is_some_and(|user| {
            let given = password_hash(password);
            bool::from(given.as_bytes().ct_eq(user.password_sha256.as_bytes()))
        })
    }

    /// Returns true if the user exists and its password has this hash.
    #[must_use]
    pub fn has_hash(&self, name: &str, password_sha256: &str) -> bool {
        let user = self.users.get(name);
        user.is_some_and(|user| user.password_sha256 == password_sha256)
    }

    /// Sets the password of a user, who is created if missing.
    pub fn set_password(&mut self, name: &str, password: &str) {
        self.set_hash(name, password_hash(password));
    }

    /// Sets the hash of a user's password; the user is created if missing.
    pub fn set_hash(&mut self, name: &str, password_sha256: String) {
        self.users
            .insert(name.to_owned(), UserRecord { password_sha256 });
    }

    /// Gives a user a new random password and returns it.
    pub fn rotate(&mut self, name: &str) -> String {
        let id = name.strip_prefix(PROJECT);
        let id = id.and_then(|id| id.trim_start_matches('_').parse().ok());
        let password = id.map_or_else(|| Uuid::new_v4().simple().to_string(), project_password);
        self.set_password(name, &password);
        password
    }

    /// Removes a user; returns false if there was none.
    pub fn remove(&mut self, name: &str) -> bool {
        self.users.remove(name).is_some()
    }

    /// Checks the name and password of a client of the engine.
    pub(crate) fn login(&self, name: &str, password: &str) -> Option<Login> {
        let credential = Credential::of(name, password)?;
        let is_right = self.has_password(&credential.name, password);
        is_right.then(|| match name {
            PROJECT => Login::Project {
                token: token_of(password),
            },
            _ => Login::User,
        })
    }

    /// Returns true if the user of a credential still has its password.
    pub(crate) fn accepts(&self, credential: &Credential) -> bool {
        self.has_hash(&credential.name, &credential.password_sha256)
    }
}

// === impl Credential ===

impl Credential {
    /// Credential of a client of the engine; `None` for a name that no user of the file logs in by.
    /// The password of a project's user begins with the project's id.
    pub(crate) fn of(name: &str, password: &str) -> Option<Self> {
        let name = match name {
            PROJECT => {
                let (id, _) = password.split_once('_')?;
                project_user(id.parse().ok()?)
            }
            // The names of projects' users are no users of the engine.
            name if name.starts_with(PROJECT) => return None,
            name => name.to_owned(),
        };
        Some(Self {
            name,
            password_sha256: password_hash(password),
        })
    }
}

/// Locks a folder, which is created if missing, until the file is dropped.
fn lock(dir: &Path) -> io::Result<File> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    let dir = File::open(dir)?;
    flock(&dir, FlockOperation::LockExclusive)?;
    Ok(dir)
}

fn replace(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn passwords_are_kept_as_hashes_in_a_file_of_the_owner() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("users");
        assert_eq!(UsersFile::load(&dir).unwrap().names().count(), 0);
        let rotated = UsersFile::change(&dir, |users| {
            Ok::<_, UsersFileError>(users.rotate("reader"))
        });
        let password = rotated.unwrap();
        let path = dir.join(FILE_NAME);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&password), "{text}");
        assert_eq!(
            fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let again = UsersFile::load(&dir).unwrap();
        assert!(again.has_password("reader", &password));
        fs::write(dir.join(FILE_NAME), "{").unwrap();
        let error = UsersFile::load(&dir).unwrap_err().to_string();
        assert!(
            error.contains("is not a file of ClickHouse users"),
            "{error}"
        );
    }

    #[test]
    fn a_change_that_fails_leaves_the_file_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        let failed = UsersFile::change(home.path(), |users| {
            users.rotate("reader");
            Err::<(), _>(UsersFileError::Io {
                path: PathBuf::new(),
                source: ErrorKind::Other.into(),
            })
        });
        failed.unwrap_err();
        assert_eq!(UsersFile::load(home.path()).unwrap(), UsersFile::default());
    }

    #[test]
    fn changes_at_once_are_all_kept() {
        const CHANGES: i64 = 8;
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for id in 0..CHANGES {
                let dir = home.path();
                scope.spawn(move || {
                    let changed = UsersFile::change(dir, |users| {
                        Ok::<_, UsersFileError>(users.rotate(&project_user(id)))
                    });
                    changed.unwrap();
                });
            }
        });
        let names = UsersFile::load(home.path()).unwrap().names().count();
        assert_eq!(names, CHANGES as usize);
    }

    #[test]
    fn a_login_needs_the_name_and_the_last_password_of_a_user() {
        let mut users = UsersFile::default();
        let (reader, first) = (users.rotate("reader"), users.rotate("project_5"));
        let second = users.rotate("project_5");
        let other = users.rotate("project_50");
        let swapped = other.replacen("50_", "5_", 1);
        let token = |password: &str| {
            Some(Login::Project {
                token: token_of(password),
            })
        };
        let table = [
            ("reader", reader.as_str(), Some(Login::User)),
            ("reader", "", None),
            ("reader", second.as_str(), None),
            ("admin", reader.as_str(), None),
            ("project", second.as_str(), token(&second)),
            ("project", other.as_str(), token(&other)),
            ("project", first.as_str(), None),
            ("project", swapped.as_str(), None),
            ("project", reader.as_str(), None),
            ("project", "", None),
            ("project_5", second.as_str(), None),
        ];
        for (name, password, expected) in table {
            assert_eq!(users.login(name, password), expected, "{name} {password}");
        }
        assert!(users.remove("project_5") && !users.remove("project_5"));
        assert_eq!(users.login("project", &second), None);
    }
}
