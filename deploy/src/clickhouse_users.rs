//! Users of the embedded ClickHouse beside the server's own: `admin`, `reader`, and one for each
//! project that asked for it, which `clickhouse_sync` takes from the catalog.
//!
//! `credentials.json` has the passwords of the first two in clear text, as it has the server's own.
//! The file of users has hashes only. It is what the engine's login server reads, so the password
//! of a project's user is known to whoever was given it, and to nobody else.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use anyhow::bail;
use millrace_embedded::{ADMIN, PROJECT, READER, UsersFile, project_user};
use std::path::PathBuf;
use uuid::Uuid;

/// Folder of the file of users, below the data folder.
const DIR: &str = "clickhouse-users";

/// Folder of the file of users.
#[must_use]
pub fn dir(config: &Config) -> PathBuf {
    config.data_dir.join(DIR)
}

/// Makes the users that every engine has, where they are missing: at the first start, and at the
/// first one after an upgrade.
///
/// # Errors
/// When the file of users cannot be read or written.
pub fn ensure(config: &Config, credentials: &mut Credentials) -> anyhow::Result<()> {
    let Engine::Embedded { sources, .. } = &config.engine else {
        return Ok(());
    };
    let fixed = [
        (ADMIN, &mut credentials.clickhouse_admin_password),
        (READER, &mut credentials.clickhouse_reader_password),
    ];
    UsersFile::change(&dir(config), |users| {
        for (name, password) in fixed {
            if name == READER && !sources.iter().all(|source| source.is_remote()) {
                password.clear();
                users.remove(name);
                continue;
            }
            if password.is_empty() {
                *password = Uuid::new_v4().simple().to_string();
            }
            if !users.has_password(name, password) {
                users.set_password(name, password);
            }
        }
        Ok(())
    })
}

/// Gives `reader` or `admin` a new password and returns it.
///
/// # Errors
/// When there is no such user, or a file cannot be written.
pub fn rotate(config: &Config, name: &str) -> anyhow::Result<String> {
    let dir = dir(config);
    if UsersFile::load(&dir)?.names().next().is_none() {
        bail!(
            "no embedded ClickHouse has run on this data folder; start the server first, or name its folder with \
             --data-dir"
        );
    }
    if name != ADMIN && name != READER {
        bail!(
            "there is no user {name:?} whose password can be rotated; there are {ADMIN}, {READER} and {}, with the id \
             of a project",
            project_user(1)
        );
    }
    UsersFile::change(&dir, |users| {
        let password = users.rotate(name);
        keep(config, name, &password)?;
        Ok(password)
    })
}

/// Id of the project whose user this is.
#[must_use]
pub fn project_of(name: &str) -> Option<i64> {
    let id = name
        .strip_prefix(PROJECT)?
        .strip_prefix('_')?
        .parse()
        .ok()?;
    (project_user(id) == name).then_some(id)
}

/// Keeps a password in `credentials.json`.
fn keep(config: &Config, name: &str, password: &str) -> anyhow::Result<()> {
    let path = config.credentials_path();
    let mut credentials = Credentials::load(&path)?.unwrap_or_default();
    let kept = match name {
        ADMIN => &mut credentials.clickhouse_admin_password,
        _ => &mut credentials.clickhouse_reader_password,
    };
    password.clone_into(kept);
    credentials.store(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_with_an_id_is_a_projects_user() {
        let table = [
            ("project_7", Some(7)),
            ("project_07", None),
            ("project_+7", None),
            ("project_", None),
            ("project", None),
            ("reader", None),
        ];
        for (name, expected) in table {
            assert_eq!(project_of(name), expected, "{name}");
        }
    }
}
