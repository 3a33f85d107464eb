//! Users of the embedded ClickHouse beside the server's own: `admin`, `reader`, and one for each
//! project that asked for it.
//!
//! `credentials.json` has the passwords of the first two in clear text, as it has the server's own.
//! The file of users has hashes only. It is what the engine's login server reads, so the password
//! of a project's user is known to whoever was given it, and to nobody else.

use crate::config::{Config, Engine};
use crate::credentials::Credentials;
use anyhow::{Context, bail};
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, ProjectToken, ProjectViews};
use millrace_embedded::{
    ADMIN, PROJECT, PROJECT_DATABASE, PROJECT_TOKENS, PROJECT_VIEWS, READER, UsersFile, VIEWS,
    project_user, token_hash,
};
use millrace_organizations::Projects;
use millrace_rows::RareLog;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Folder of the file of users, below the data folder.
const DIR: &str = "clickhouse-users";
/// Pause between two checks for users of deleted projects.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

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
    let dir = dir(config);
    let mut users = UsersFile::load(&dir)?;
    let mut is_changed = false;
    let fixed = [
        (ADMIN, &mut credentials.clickhouse_admin_password),
        (READER, &mut credentials.clickhouse_reader_password),
    ];
    for (name, password) in fixed {
        if name == READER && !sources.iter().all(|source| source.is_remote()) {
            password.clear();
            is_changed |= users.remove(name);
            continue;
        }
        if password.is_empty() {
            *password = Uuid::new_v4().simple().to_string();
        }
        if !users.has_password(name, password) {
            users.set_password(name, password);
            is_changed = true;
        }
    }
    if is_changed || users.names().next().is_none() {
        users.store(&dir)?;
    }
    Ok(())
}

/// Gives a user a new password and returns it. A project's user is made if it is missing, and sees
/// the rows of its project from now on.
///
/// # Errors
/// When there is no such user, ClickHouse cannot be asked, or a file cannot be written.
pub async fn rotate(
    config: &Config,
    clickhouse: &ClickHouse,
    name: &str,
) -> anyhow::Result<String> {
    let dir = dir(config);
    let mut users = UsersFile::load(&dir)?;
    if users.names().next().is_none() {
        bail!(
            "no embedded ClickHouse has run on this data folder; start the server first, or name its folder with \
             --data-dir"
        );
    }
    let password = users.rotate(name);
    if let Some(project_id) = project_of(name) {
        let token = ProjectToken {
            team_id: project_id,
            hash: token_hash(&password),
        };
        let opened = clickhouse.open_project(&views(config)?, &token, "").await;
        opened.with_context(|| {
            format!("ClickHouse does not make the user of project {project_id}")
        })?;
    } else if name == ADMIN || name == READER {
        keep(config, name, &password)?;
    } else {
        bail!(
            "there is no user {name:?} whose password can be rotated; there are {ADMIN}, {READER} and {}, with the id \
             of a project",
            project_user(1)
        );
    }
    users.store(&dir)?;
    Ok(password)
}

/// Removes users of projects that the catalog no longer has, for ever.
pub async fn remove_deleted(config: Config, catalog: Catalog) -> Infallible {
    let (dir, failures) = (dir(&config), RareLog::default());
    loop {
        match remove_deleted_once(&dir, &catalog).await {
            Ok(()) => {
                failures.clear();
            }
            Err(error) if failures.is_due(&format!("{error:#}"), Instant::now()) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "users of deleted projects cannot be removed from ClickHouse; trying again"
                );
            }
            Err(_) => {}
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

async fn remove_deleted_once(dir: &Path, catalog: &Catalog) -> anyhow::Result<()> {
    let users = UsersFile::load(dir)?;
    let named: Vec<(String, i64)> = users
        .names()
        .filter_map(|name| Some((name.to_owned(), project_of(name)?)))
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let projects = Projects::new(catalog).list_all(None).await?;
    let living: BTreeSet<i64> = projects.into_iter().map(|project| project.id).collect();
    // A command may have changed the file meanwhile.
    let mut users = UsersFile::load(dir)?;
    let mut is_changed = false;
    for (name, _) in named.iter().filter(|(_, id)| !living.contains(id)) {
        is_changed |= users.remove(name);
    }
    if is_changed {
        users.store(dir)?;
    }
    Ok(())
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

fn views(config: &Config) -> anyhow::Result<ProjectViews<'_>> {
    let Engine::Embedded { sources, .. } = &config.engine else {
        bail!(
            "clickhouse_url names a server, whose users are made by its own means; this command is for the \
             embedded ClickHouse"
        );
    };
    if !sources.iter().all(|source| source.is_remote()) {
        bail!(
            "clickhouse_sources has file or sqlite, which reach the rows of all projects, so there are no users of \
             single projects; remove these sources and start the server again"
        );
    }
    Ok(ProjectViews {
        database: PROJECT_DATABASE,
        tokens: PROJECT_TOKENS,
        views: &PROJECT_VIEWS,
        definer: VIEWS,
    })
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
