//! `millrace config`: every setting, its value and its origin.

use crate::config::{Config, Engine, Layers};
use bytesize::ByteSize;
use clap::Command;

/// Settings whose values are never shown.
const SECRETS: [&str; 4] = [
    "clickhouse_password",
    "database_url",
    "secret_key",
    "smtp_url",
];

/// Formats the settings as a TOML file that gives the same result, with origins as comments.
/// `config` has the defaults that depend on the machine.
#[must_use]
pub fn show(command: &Command, layers: &Layers, config: &Config) -> String {
    let mut lines = Vec::new();
    let settings = command
        .get_arguments()
        .filter(|arg| arg.get_env().is_some() && arg.get_id() != "config" && !arg.is_hide_set());
    for arg in settings {
        let id = arg.get_id().as_str();
        let values: Vec<String> = layers
            .matches
            .get_raw(id)
            .map(|values| {
                values
                    .map(|value| value.to_string_lossy().into_owned())
                    .collect()
            })
            .unwrap_or_default();
        let source = layers.source(id);
        lines.push(match values.as_slice() {
            [] => match effective_default(id, config) {
                Some(value) => format!("{id} = {} # default", toml::Value::String(value)),
                None => format!("# {id} is not set"),
            },
            _ if SECRETS.contains(&id) && !values.concat().is_empty() => {
                format!("# {id} is set and not shown ({source})")
            }
            values => format!(
                "{id} = {} # {source}",
                toml::Value::String(values.join(","))
            ),
        });
    }
    lines.join("\n")
}

/// Effective value of a setting that was not given, if it depends on the machine or on other
/// settings.
fn effective_default(id: &str, config: &Config) -> Option<String> {
    match id {
        "database_url" => Some(config.database_url.clone()),
        "log_dir" => Some(config.log_dir.display().to_string()),
        "log_bytes_max" => Some(ByteSize::b(config.log_bytes_max).to_string()),
        "workers" => Some(config.workers.to_string()),
        "clickhouse_backup_dir" => match &config.engine {
            Engine::Embedded { backup_dir, .. } => Some(backup_dir.display().to_string()),
            Engine::Server { .. } => None,
        },
        "clickhouse_user" => Some(match &config.engine {
            Engine::Embedded { user, .. } | Engine::Server { user, .. } => user.clone(),
        }),
        _ => None,
    }
}
