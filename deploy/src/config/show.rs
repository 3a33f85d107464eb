//! `millrace config`: every setting, its value and where it comes from.

use crate::config::Layers;
use clap::Command;

/// Settings whose values are never shown.
const SECRETS: [&str; 2] = ["clickhouse_password", "database_url"];

/// The settings as a TOML file that would give the same result, sources as comments.
#[must_use]
pub fn show(command: &Command, layers: &Layers) -> String {
    let mut lines = Vec::new();
    let settings = command
        .get_arguments()
        .filter(|arg| arg.get_env().is_some() && arg.get_id() != "config");
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
            [] => format!("# {id} is not set"),
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
