//! What the uses of plugins look like on the wire.

use super::bodies::PluginBody;
use crate::timestamp::Timestamp;
use millrace_catalog::PluginUse;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// What stands for a secret.
const MASK: &str = "********";

/// A plugin as a project uses it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginConfig")]
pub(super) struct UseBody {
    id: i64,
    /// Which plugin.
    plugin: i64,
    enabled: bool,
    /// Its place among the project's plugins.
    order: i32,
    /// Values by their keys, without secrets.
    config: Value,
    error: Option<String>,
    team_id: i64,
    plugin_info: PluginBody,
    created_at: Timestamp,
    updated_at: Timestamp,
    name: Option<String>,
    description: Option<String>,
    deleted: bool,
}

impl From<PluginUse> for UseBody {
    fn from(found: PluginUse) -> Self {
        let config = found.config;
        let plugin = found.seen.plugin.clone();
        Self {
            id: config.id,
            plugin: config.plugin_id,
            enabled: config.enabled,
            order: config.position,
            config: masked(&plugin.config_schema, config.config),
            error: None,
            team_id: config.team_id,
            name: plugin.name,
            description: plugin.description,
            plugin_info: found.seen.into(),
            created_at: config.created_at.into(),
            updated_at: config.updated_at.into(),
            deleted: false,
        }
    }
}

/// The values without what the plugin's schema calls secret.
fn masked(schema: &Value, mut values: Value) -> Value {
    let Some(fields) = values.as_object_mut() else {
        return values;
    };
    for entry in schema.as_array().into_iter().flatten() {
        let key = entry.get("key").and_then(Value::as_str);
        let is_secret = entry.get("secret").and_then(Value::as_bool) == Some(true);
        if let Some(value) = key
            .filter(|_| is_secret)
            .and_then(|key| fields.get_mut(key))
        {
            *value = json!(MASK);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_schema_calls_secret_is_masked() {
        let schema = json!([
            { "key": "token", "secret": true },
            { "key": "missing", "secret": true },
            { "key": "url", "secret": false },
            { "markdown": "text" },
        ]);
        let values = json!({ "token": "t", "url": "u", "other": 1 });
        let expected = json!({ "token": MASK, "url": "u", "other": 1 });
        assert_eq!(masked(&schema, values.clone()), expected);
        assert_eq!(masked(&json!({}), values.clone()), values);
        assert_eq!(masked(&schema, json!([])), json!([]));
    }
}
