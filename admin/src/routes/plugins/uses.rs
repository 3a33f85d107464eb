//! Wire type of a project's use of a plugin.

use super::bodies::PluginBody;
use millrace_catalog::UtcTime;
use millrace_organizations::PluginUse;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A plugin as a project uses it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginConfig")]
pub(super) struct UseBody {
    /// Id of the use.
    id: i64,
    /// Id of the plugin.
    plugin: i64,
    /// True if the plugin runs in the project.
    enabled: bool,
    /// Position among the project's plugins.
    order: i32,
    /// Values of the settings by their keys, without secrets.
    config: Value,
    /// Always null: failures are in the logs.
    error: Option<String>,
    /// Id of the project.
    team_id: i64,
    /// The plugin.
    plugin_info: PluginBody,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
    /// Name of the plugin.
    name: Option<String>,
    /// Description of the plugin.
    description: Option<String>,
    /// Always false: deleted uses are gone.
    deleted: bool,
}

impl From<PluginUse> for UseBody {
    fn from(found: PluginUse) -> Self {
        let shown = found.shown_config();
        let config = found.config;
        let plugin = found.view.plugin.clone();
        Self {
            id: config.id,
            plugin: config.plugin_id,
            enabled: config.enabled,
            order: config.position,
            config: shown,
            error: None,
            team_id: config.team_id,
            name: plugin.name,
            description: plugin.description,
            plugin_info: found.view.into(),
            created_at: config.created_at,
            updated_at: config.updated_at,
            deleted: false,
        }
    }
}
