//! Wire types of plugins.

use millrace_catalog::{Patch, PluginType};
use millrace_organizations::{FileChange, PluginFields, PluginFiles, PluginView};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Fields of a new plugin; all are optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewPlugin")]
#[serde(default)]
pub(super) struct NewBody {
    #[serde(flatten)]
    pub(super) fields: PluginFields,
    /// Address of the plugin in the catalogue, to install it from there.
    #[schemars(length(max = 800))]
    pub(super) url: Patch<Option<String>>,
}

/// A read-only field: a value that is sent is ignored.
#[derive(Debug, Default)]
pub(super) struct ReadOnly;

impl<'de> Deserialize<'de> for ReadOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

impl JsonSchema for ReadOnly {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ReadOnly".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "Read only: ignored here." })
    }
}

/// Fields of the plugin and files of its source: every name that is not a field is a file, with
/// its text, or null to delete it. At most 200 files, 5 MiB together.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PluginSourceChange")]
#[serde(default)]
pub(super) struct SourceBody {
    #[serde(flatten)]
    pub(super) fields: PluginFields,
    #[serde(rename = "id")]
    _id: ReadOnly,
    #[serde(rename = "url")]
    _url: ReadOnly,
    #[serde(rename = "latest_tag")]
    _latest_tag: ReadOnly,
    #[serde(rename = "organization_id")]
    _organization_id: ReadOnly,
    #[serde(rename = "organization_name")]
    _organization_name: ReadOnly,
    #[serde(flatten)]
    files: BTreeMap<String, Option<String>>,
}

impl SourceBody {
    /// Splits the body into fields and files.
    pub(super) fn into_parts(self) -> (PluginFields, Vec<FileChange>) {
        let files = self.files.into_iter();
        let files = files.map(|(name, source)| FileChange { name, source });
        (self.fields, files.collect())
    }
}

/// A plugin, without its source.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plugin")]
pub(super) struct PluginBody {
    /// Id of the plugin.
    id: i64,
    /// Origin of the code.
    plugin_type: Option<PluginType>,
    /// Name of the plugin.
    name: Option<String>,
    /// Description of the plugin.
    description: Option<String>,
    /// Address of the plugin in the catalogue.
    url: Option<String>,
    /// Address of a picture.
    icon: Option<String>,
    /// Schema of the plugin's settings.
    config_schema: Value,
    /// Installed version.
    tag: Option<String>,
    /// Version in the catalogue at the last check.
    latest_tag: Option<String>,
    /// True if every organization sees the plugin.
    is_global: bool,
    /// Id of the organization that owns the plugin.
    organization_id: Uuid,
    /// Name of the organization that owns the plugin.
    organization_name: String,
    /// Capabilities of the plugin.
    capabilities: Value,
    /// Metrics that the plugin counts.
    metrics: Option<Value>,
    /// Jobs that users can start.
    public_jobs: Option<Value>,
}

impl From<PluginView> for PluginBody {
    fn from(view: PluginView) -> Self {
        let url = view.shown_url();
        let plugin = view.plugin;
        Self {
            id: plugin.id,
            plugin_type: plugin.plugin_type,
            name: plugin.name,
            description: plugin.description,
            url,
            icon: plugin.icon,
            config_schema: plugin.config_schema.0,
            tag: plugin.tag,
            latest_tag: plugin.latest_tag,
            is_global: plugin.is_global,
            organization_id: plugin.organization_id,
            organization_name: view.organization_name,
            capabilities: plugin.capabilities.0,
            metrics: plugin.metrics.map(|value| value.0),
            public_jobs: plugin.public_jobs.map(|value| value.0),
        }
    }
}

/// A plugin with the files of its source.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginWithSource")]
pub(super) struct PluginSourceBody {
    #[serde(flatten)]
    plugin: PluginBody,
    /// Text of each file by its name.
    source: BTreeMap<String, String>,
}

impl From<PluginFiles> for PluginSourceBody {
    fn from(found: PluginFiles) -> Self {
        Self {
            plugin: found.view.into(),
            source: found.files.into_iter().collect(),
        }
    }
}

/// A plugin after a check for updates.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CheckedPlugin")]
pub(super) struct CheckedPluginBody {
    #[serde(flatten)]
    record: PluginBody,
    /// The plugin once more, for clients that look for it here.
    plugin: PluginBody,
}

impl From<PluginView> for CheckedPluginBody {
    fn from(view: PluginView) -> Self {
        let plugin = PluginBody::from(view);
        Self {
            record: plugin.clone(),
            plugin,
        }
    }
}
