//! `millrace config`: every setting, its value and its origin.

use crate::config::{Config, Engine, Layers};
use crate::setting_args;
use bytesize::ByteSize;
use clap::Command;
use serde::Serialize;

/// Settings whose values are never shown.
const SECRETS: [&str; 4] = [
    "clickhouse_password",
    "database_url",
    "secret_key",
    "smtp_url",
];

/// Setting with its value and origin.
#[derive(Clone, Debug, Serialize)]
pub struct ShownSetting {
    /// Name, as the file has it.
    name: String,
    /// Value; `None` if it is not set, or a secret.
    value: Option<String>,
    /// True for a secret that is set.
    is_hidden: bool,
    /// Origin of the value, for people.
    source: String,
}

/// Lists the settings. `config` has the defaults that depend on the machine.
#[must_use]
pub fn shown_settings(command: &Command, layers: &Layers, config: &Config) -> Vec<ShownSetting> {
    let settings = setting_args::settings(command).filter(|arg| arg.get_id() != "config");
    let shown = settings.map(|arg| {
        let name = arg.get_id().to_string();
        let given = layers.matches.get_raw(&name);
        let given: Vec<String> = given
            .into_iter()
            .flatten()
            .map(|value| value.to_string_lossy().into_owned())
            .collect();
        let is_hidden = SECRETS.contains(&name.as_str()) && !given.concat().is_empty();
        let value = match given.is_empty() {
            true => effective_default(&name, config),
            false => Some(given.join(",")),
        };
        ShownSetting {
            source: layers.source(&name),
            value: value.filter(|_| !is_hidden),
            is_hidden,
            name,
        }
    });
    shown.collect()
}

/// Formats settings as a TOML file that gives the same result, with origins as comments.
#[must_use]
pub fn show(settings: &[ShownSetting]) -> String {
    let lines = settings.iter().map(|setting| {
        let (name, source) = (&setting.name, &setting.source);
        match &setting.value {
            Some(value) => format!("{name} = {} # {source}", toml::Value::from(value.as_str())),
            None if setting.is_hidden => format!("# {name} is set and not shown ({source})"),
            None => format!("# {name} is not set"),
        }
    });
    lines.collect::<Vec<_>>().join("\n")
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
