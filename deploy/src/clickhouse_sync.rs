//! Makes the users of projects in ClickHouse as the catalog has them, and removes those of deleted
//! projects.
//!
//! The catalog decides, so that any process can give a project a user, and a deleted project takes
//! its user along. The process that supervises the embedded engine writes the engine's file of
//! users; on an operator's server every process with the API makes the users by SQL, which may be
//! repeated.

use crate::clickhouse_users::{dir, project_of};
use crate::config::{Config, Engine};
use crate::connect;
use crate::project_access::{
    EMBEDDED_VIEWS, ProjectAccess, USER_LIMITS, USERS, check_supported, query_user,
};
use anyhow::Context;
use millrace_catalog::{Catalog, ClickHouseUser};
use millrace_clickhouse::{ProjectToken, QueryError, QueryErrorKind};
use millrace_embedded::{PROJECT, Status, UsersFile, project_user};
use millrace_organizations::{ClickHouseUsers, Projects};
use millrace_rows::RareLog;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::sleep;

/// Pause between two looks at the catalog: a new password holds, and a deleted project loses its
/// user, within two seconds.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time after which everything is made anew though the catalog has not changed: ClickHouse, or the
/// file of users, may have been restored meanwhile.
const ANEW_EVERY: Duration = Duration::from_secs(60);

/// State of the users in ClickHouse, as this process knows it.
#[derive(Default)]
struct Synced {
    /// Version of the catalog that was applied, number of restarts of the engine, and time.
    version: Option<(i64, u64, Instant)>,
    /// Hashes of the passwords that were set on an operator's server.
    hashes: BTreeMap<i64, String>,
}

/// Users and projects as the catalog has them.
struct Wanted {
    users: Vec<ClickHouseUser>,
    projects: BTreeSet<i64>,
}

/// Makes and removes users, for ever. `engine` is the status of an engine that this process
/// supervises.
pub async fn run(
    config: Config,
    catalog: Catalog,
    engine: Option<watch::Receiver<Status>>,
) -> Infallible {
    let (mut synced, failures) = (Synced::default(), RareLog::default());
    loop {
        let restarts = engine.as_ref().map_or(0, |engine| engine.borrow().restarts);
        match sync(&config, &catalog, restarts, &mut synced).await {
            Ok(()) => {
                failures.clear();
            }
            // The engine comes up, which its supervisor reports.
            Err(error) if is_not_there(&error) => {}
            Err(error) if failures.is_due(&format!("{error:#}"), Instant::now()) => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "users of projects are not in ClickHouse as they should be; trying again"
                );
            }
            Err(_) => {}
        }
        sleep(LOOK_EVERY).await;
    }
}

fn is_not_there(error: &anyhow::Error) -> bool {
    let asked = error.downcast_ref::<QueryError>();
    asked.is_some_and(|error| error.kind == QueryErrorKind::NoConnection)
}

async fn sync(
    config: &Config,
    catalog: &Catalog,
    restarts: u64,
    synced: &mut Synced,
) -> anyhow::Result<()> {
    // Read first: a change beside is seen by the next look.
    let version = catalog.keys_version().await?;
    let is_current = synced.version.is_some_and(|(known, at_restarts, since)| {
        (known, at_restarts) == (version, restarts) && since.elapsed() < ANEW_EVERY
    });
    if is_current {
        return Ok(());
    }
    let users = ClickHouseUsers::new(catalog).list_all().await?;
    let projects = Projects::new(catalog).list_all(None).await?;
    let wanted = Wanted {
        users,
        projects: projects.into_iter().map(|project| project.id).collect(),
    };
    match &config.engine {
        Engine::Embedded { .. } => {
            // At once, as it needs no ClickHouse.
            remove_logins(config, &wanted)?;
            if check_supported(config).is_ok() {
                sync_embedded(config, &wanted).await?;
            }
        }
        Engine::Server { .. } if check_supported(config).is_ok() => {
            sync_server(config, &wanted, synced).await?;
        }
        Engine::Server { .. } => {}
    }
    synced.version = Some((version, restarts, Instant::now()));
    Ok(())
}

/// Removes users whose projects are gone from the embedded engine's file.
fn remove_logins(config: &Config, wanted: &Wanted) -> anyhow::Result<()> {
    let users: BTreeSet<i64> = wanted.users.iter().map(|user| user.team_id).collect();
    UsersFile::change(&dir(config), |file| {
        let gone = file
            .names()
            .filter(|name| project_of(name).is_some_and(|id| !users.contains(&id)));
        let gone: Vec<String> = gone.map(str::to_owned).collect();
        for name in &gone {
            file.remove(name);
        }
        Ok(())
    })
}

async fn sync_embedded(config: &Config, wanted: &Wanted) -> anyhow::Result<()> {
    let access = ProjectAccess::connect(config, connect::clickhouse_settings(config)?).await?;
    let clickhouse = access.clickhouse();
    let tokens = clickhouse.project_tokens(&EMBEDDED_VIEWS).await?;
    let gone: BTreeSet<i64> = tokens
        .iter()
        .map(|token| token.team_id)
        .filter(|id| !wanted.projects.contains(id))
        .collect();
    let gone: Vec<i64> = gone.into_iter().collect();
    clickhouse.close_projects(&EMBEDDED_VIEWS, &gone).await?;
    let tokens: BTreeSet<ProjectToken> = tokens.into_iter().collect();
    let dir = dir(config);
    let file = UsersFile::load(&dir)?;
    let mut changed = Vec::new();
    for user in &wanted.users {
        let name = project_user(user.team_id);
        let token = ProjectToken {
            team_id: user.team_id,
            hash: user.token_sha256.clone(),
        };
        let has_hash = file.has_hash(&name, &user.password_sha256);
        if has_hash && tokens.contains(&token) {
            continue;
        }
        let kept = access.own_tokens(user.team_id);
        let opened = clickhouse.open_project(&EMBEDDED_VIEWS, &token, Some(&kept));
        opened.await?;
        if !has_hash {
            changed.push((name, user.password_sha256.clone()));
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    UsersFile::change(&dir, |file| {
        for (name, hash) in changed {
            file.set_hash(&name, hash);
        }
        Ok(())
    })
}

async fn sync_server(config: &Config, wanted: &Wanted, synced: &mut Synced) -> anyhow::Result<()> {
    // A server on which nobody asked for a user is left alone.
    if wanted.users.is_empty() && synced.hashes.is_empty() {
        return Ok(());
    }
    let access = ProjectAccess::connect(config, connect::clickhouse_settings(config)?).await?;
    if access.is_embedded() {
        // The process that supervises that engine makes its users.
        return Ok(());
    }
    let clickhouse = access.clickhouse();
    let advice = "let its user manage users, then run `millrace migrate --users`";
    let known = clickhouse.users_named(PROJECT).await.context(advice)?;
    let users = wanted.users.iter().map(|user| project_user(user.team_id));
    let queries = wanted.projects.iter().map(|id| query_user(*id));
    let kept: BTreeSet<String> = users.chain(queries).collect();
    let is_gone = |name: &String| is_of_project(name) && !kept.contains(name);
    let gone: Vec<String> = known.into_iter().filter(is_gone).collect();
    clickhouse.drop_users(&gone).await.context(advice)?;
    synced
        .hashes
        .retain(|id, _| wanted.users.iter().any(|user| user.team_id == *id));
    let is_missing =
        |user: &&ClickHouseUser| synced.hashes.get(&user.team_id) != Some(&user.password_sha256);
    let missing: Vec<&ClickHouseUser> = wanted.users.iter().filter(is_missing).collect();
    if !missing.is_empty() {
        clickhouse.prepare_users(&USERS).await.context(advice)?;
    }
    for user in missing {
        let (name, hash) = (project_user(user.team_id), &user.password_sha256);
        let made = clickhouse.make_project_user(&USERS, &name, user.team_id, hash, USER_LIMITS);
        made.await.context(advice)?;
        synced.hashes.insert(user.team_id, hash.clone());
    }
    Ok(())
}

/// Returns true for names of users that this program makes for projects.
fn is_of_project(name: &str) -> bool {
    let id = name.rsplit('_').next().and_then(|id| id.parse().ok());
    id.is_some_and(|id| name == project_user(id) || name == query_user(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_others_are_no_users_of_projects() {
        let table = [
            ("project_7", true),
            ("project_query_7", true),
            ("project_views", false),
            ("project_query", false),
            ("project", false),
            ("project_07", false),
            ("project_manager_7", false),
        ];
        for (name, expected) in table {
            assert_eq!(is_of_project(name), expected, "{name}");
        }
    }
}
