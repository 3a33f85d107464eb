//! `millrace clickhouse-users`: lists the users of the embedded ClickHouse and rotates passwords.

use super::table;
use crate::clickhouse_users::{dir, project_of, rotate};
use crate::config::{Config, Engine};
use crate::connect::{self, running_credentials};
use crate::output;
use anyhow::bail;
use clap::{Args, Subcommand};
use millrace_clickhouse::ClickHouse;
use millrace_embedded::{ADMIN, PROJECT, READER, UsersFile};
use millrace_organizations::Projects;
use millrace_rows::shown;

/// Subcommand of `millrace clickhouse-users`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List the users and what each may do
    List,
    /// Give a user another password, at once, and print it
    ///
    /// `project_ID` is made if the project has no user yet. It logs in as `project`, sees the rows
    /// of its project in the database `project`, and its password is printed only this once.
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
/// When ClickHouse is not the embedded one, or there is no such user or project.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    let Engine::Embedded { user, .. } = &config.engine else {
        bail!(
            "clickhouse_url names a server; its users are made by its own means, such as CREATE USER"
        );
    };
    match command {
        Command::List => list(config, user),
        Command::Rotate(arguments) => connect::block_on(change(config, &arguments.name)),
    }
}

fn list(config: &Config, own: &str) -> anyhow::Result<()> {
    running_credentials(config)?;
    let users = UsersFile::load(&dir(config))?;
    let row = |name: &str| {
        let (login, rights) = match name {
            ADMIN => (ADMIN, "everything in the database".to_owned()),
            READER => (READER, "reads the rows of all projects".to_owned()),
            other => {
                let id = project_of(other).unwrap_or_default();
                (PROJECT, format!("reads the rows of project {id}"))
            }
        };
        [name.to_owned(), login.to_owned(), rights]
    };
    let server = [
        own.to_owned(),
        own.to_owned(),
        "everything in the database, for the server itself".to_owned(),
    ];
    let rows = std::iter::once(server).chain(users.names().map(row));
    table::print(["USER", "LOGS IN AS", "MAY"], rows.collect(), "");
    Ok(())
}

async fn change(config: &Config, name: &str) -> anyhow::Result<()> {
    let credentials = running_credentials(config)?;
    if let Some(project_id) = project_of(name) {
        let catalog = connect::catalog(config).await?;
        let projects = Projects::new(&catalog).list_all(None).await?;
        catalog.close().await?;
        if !projects.iter().any(|project| project.id == project_id) {
            bail!("there is no project {project_id}; `millrace keys list` shows all projects");
        }
    }
    let clickhouse = ClickHouse::new(&connect::embedded_settings(&credentials));
    let password = rotate(config, &clickhouse, name).await?;
    let login = project_of(name).map_or(name, |_| PROJECT);
    output::print(&format!("User {login}, password {password}"));
    if login == PROJECT {
        output::print(&format!(
            "It is the password of {} and is not shown again. Its tables are in the database {PROJECT}; clients must \
             send no session_id.",
            shown(name)
        ));
    }
    Ok(())
}
