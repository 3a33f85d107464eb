//! `millrace credentials`: prints keys, addresses and passwords of the data folder.

use crate::clickhouse_users::project_of;
use crate::config::{Config, Engine};
use crate::connect::running_credentials;
use crate::{output, serve};
use anyhow::bail;
use clap::Args;
use millrace_embedded::{ADMIN, READER};
use millrace_rows::shown;

/// Arguments of `millrace credentials`.
#[derive(Args, Clone, Debug)]
pub struct Show {
    /// User of ClickHouse whose password to print: `reader`, `admin`, or the server's own; without
    /// a name all of credentials.json is printed
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When there is no `credentials.json`, or it has no password of that user.
pub fn run(config: &Config, arguments: &Show) -> anyhow::Result<()> {
    let Some(name) = &arguments.name else {
        return serve::print_credentials(config);
    };
    if project_of(name).is_some() {
        bail!(
            "the password of {} was shown once, and only its hash is kept; `millrace clickhouse-users rotate {}` gives \
             it another",
            shown(name),
            shown(name)
        );
    }
    let is_of_engine = [READER, ADMIN].contains(&name.as_str());
    if is_of_engine && matches!(config.engine, Engine::Server { .. }) {
        bail!(
            "clickhouse_url names a ClickHouse whose password of {name} is not kept here: of `millrace clickhouse`, \
             `millrace credentials {name}` prints it with that data folder; of another server, \
             `millrace migrate --users` printed that of {READER}"
        );
    }
    let credentials = running_credentials(config)?;
    let password = match name.as_str() {
        READER => credentials.clickhouse_reader_password,
        ADMIN => credentials.clickhouse_admin_password,
        own if own == credentials.clickhouse_user => credentials.clickhouse_password,
        _ => String::new(),
    };
    if password.is_empty() {
        bail!(
            "there is no password of {} in {}; `millrace clickhouse-users list` shows all users",
            shown(name),
            config.credentials_path().display()
        );
    }
    output::print(&password);
    Ok(())
}
