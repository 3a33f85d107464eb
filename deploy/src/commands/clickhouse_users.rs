//! `millrace clickhouse-users`: lists the users of ClickHouse and rotates passwords.

use super::list_format::{ListFormat, print_object};
use super::table;
use crate::clickhouse_users::{dir, project_of, rotate};
use crate::config::{Config, Engine};
use crate::connect::{self, running_credentials};
use crate::output;
use crate::project_access::{NO_PASSWORDS, ProjectAccess, check_supported};
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use millrace_catalog::{Actor, Catalog, ProjectId};
use millrace_embedded::{
    ADMIN, PROJECT, PROJECT_DATABASE, READER, UsersFile, password_hash, project_password,
    project_user, token_hash,
};
use millrace_organizations::{ClickHouseUsers, NewClickHouseLogin, Projects};
use millrace_rows::shown;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Longest wait for the server to take a new password over from the catalog.
const HOLDS_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Subcommand of `millrace clickhouse-users`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the users and what each may do
    List(ListFormat),
    /// Give a user another password, and print it
    ///
    /// `project_ID` is made if the project has no user yet. It sees the rows of its project in the
    /// database `project`, and its password is printed only this once. In the embedded ClickHouse
    /// it logs in as `project`.
    Rotate(Rotate),
}

/// User to rotate.
#[derive(Args, Clone, Debug)]
pub struct Rotate {
    /// `reader`, `admin`, or `project_ID` with the id of a project
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs the command.
///
/// # Errors
/// When there is no such user or project, or no server has run.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(format) => list(config, *format),
        Command::Rotate(arguments) => match project_of(&arguments.name) {
            Some(id) => connect::with_catalog(config, async |catalog| {
                rotate_project(config, catalog, id).await
            }),
            None => rotate_fixed(config, &arguments.name),
        },
    }
}

/// User, name by which it logs in, and rights.
type UserRow = [String; 3];

fn list(config: &Config, format: ListFormat) -> anyhow::Result<()> {
    let of_project = |id: i64| format!("reads the rows of project {id}");
    let Engine::Embedded { user: own, .. } = &config.engine else {
        let rows = connect::with_catalog(config, async |catalog| {
            let users = ClickHouseUsers::new(catalog).list_all().await?;
            let ids: Vec<i64> = users.iter().map(|user| user.team_id).collect();
            let mut rows = Vec::new();
            if ids.is_empty() {
                return Ok(rows);
            }
            let access = access(config).await?;
            for id in ids {
                let login = login_name(access.as_ref(), id)?;
                rows.push([project_user(id), login, of_project(id)]);
            }
            Ok(rows)
        })?;
        print_users(rows, format, "No project has a user in ClickHouse.");
        return Ok(());
    };
    running_credentials(config)?;
    let users = UsersFile::load(&dir(config))?;
    let row = |name: &str| {
        let (login, rights) = match name {
            ADMIN => (ADMIN, "everything in the database".to_owned()),
            READER => (READER, "reads the rows of all projects".to_owned()),
            other => (PROJECT, of_project(project_of(other).unwrap_or_default())),
        };
        [name.to_owned(), login.to_owned(), rights]
    };
    let server = [
        own.to_owned(),
        own.to_owned(),
        "everything in the database, for the server itself".to_owned(),
    ];
    let rows = std::iter::once(server).chain(users.names().map(row));
    print_users(rows.collect(), format, "");
    Ok(())
}

fn print_users(rows: Vec<UserRow>, format: ListFormat, none: &str) {
    if format.is_json() {
        let users = rows.iter().map(
            |[user, login, rights]| json!({ "name": user, "logs_in_as": login, "rights": rights }),
        );
        let users: Vec<Value> = users.collect();
        print_object(&json!({ "users": users }));
        return;
    }
    table::print(["USER", "LOGS IN AS", "MAY"], rows, none);
}

fn rotate_fixed(config: &Config, name: &str) -> anyhow::Result<()> {
    let Engine::Embedded { .. } = &config.engine else {
        bail!(
            "clickhouse_url names a server; only the users of projects are made by Millrace there, and reader by \
             `millrace migrate --users`"
        );
    };
    running_credentials(config)?;
    let password = rotate(config, name)?;
    output::print(&format!("User {name}, password {password}"));
    Ok(())
}

async fn rotate_project(config: &Config, catalog: &Catalog, id: i64) -> anyhow::Result<()> {
    check_supported(config)?;
    let is_embedded = matches!(config.engine, Engine::Embedded { .. });
    if is_embedded {
        running_credentials(config)?;
    }
    let project_id = ProjectId(id);
    if Projects::new(catalog).get(project_id).await?.is_none() {
        bail!("there is no project {id}; `millrace keys list` shows all projects");
    }
    // Before anything is changed, as there may be no such users.
    let user = login_name(access(config).await?.as_ref(), id)?;
    let password = project_password(id);
    let hash = password_hash(&password);
    let login = NewClickHouseLogin {
        password_sha256: hash.clone(),
        token_sha256: token_hash(PROJECT, &password),
    };
    let users = ClickHouseUsers::new(catalog);
    users
        .rotate_as_operator(&Actor::system(), project_id, login)
        .await?;
    let name = project_user(id);
    output::print(&format!("User {user}, password {password}"));
    output::print(&format!(
        "It is the password of {} and is not shown again. Its tables are in the database {PROJECT_DATABASE}; clients \
         must send no session_id.",
        shown(&name)
    ));
    if !is_embedded || !holds(config, &name, &hash).await? {
        output::print("It holds as soon as a running server has read it.");
    }
    Ok(())
}

/// Access to a ClickHouse that another process runs; `None` for the engine of a server here.
async fn access(config: &Config) -> anyhow::Result<Option<ProjectAccess>> {
    let Some(settings) = connect::configured_settings(config) else {
        return Ok(None);
    };
    let access = ProjectAccess::connect(config, settings).await;
    let access = access.map_err(|error| connect::explain(config, error))?;
    Ok(Some(access))
}

/// Name by which the user of a project logs in.
fn login_name(access: Option<&ProjectAccess>, project_id: i64) -> anyhow::Result<String> {
    match access {
        None => Ok(PROJECT.to_owned()),
        Some(access) => access.login_name(project_id).context(NO_PASSWORDS),
    }
}

/// Waits until the embedded engine has a password; returns false after a while.
async fn holds(config: &Config, name: &str, hash: &str) -> anyhow::Result<bool> {
    let (dir, begun) = (dir(config), Instant::now());
    while begun.elapsed() < HOLDS_WITHIN {
        if UsersFile::load(&dir)?.has_hash(name, hash) {
            return Ok(true);
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(false)
}
