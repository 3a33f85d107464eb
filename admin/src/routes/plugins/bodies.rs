//! What plugins look like on the wire.

use crate::patch::Patch;
use crate::plain_text::LINES;
use millrace_catalog::{FileChange, PluginFields, PluginFiles, PluginType, SeenPlugin};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Where a plugin's code comes from.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "PluginType")]
pub(super) enum TypeName {
    Local,
    Custom,
    Repository,
    Source,
    Inline,
}

impl From<TypeName> for PluginType {
    fn from(name: TypeName) -> Self {
        match name {
            TypeName::Local => Self::Local,
            TypeName::Custom => Self::Custom,
            TypeName::Repository => Self::Repository,
            TypeName::Source => Self::Source,
            TypeName::Inline => Self::Inline,
        }
    }
}

impl From<PluginType> for TypeName {
    fn from(kind: PluginType) -> Self {
        match kind {
            PluginType::Local => Self::Local,
            PluginType::Custom => Self::Custom,
            PluginType::Repository => Self::Repository,
            PluginType::Source => Self::Source,
            PluginType::Inline => Self::Inline,
        }
    }
}

/// Any JSON but null.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct FreeForm(Value);

impl JsonSchema for FreeForm {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FreeForm".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["object", "array", "string", "number", "boolean"],
            // Generators of clients ask what is in a list.
            "items": {},
        })
    }
}

/// The fields of a plugin that may be written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchPlugin")]
#[serde(default)]
pub(super) struct PatchBody {
    /// Where the code comes from.
    plugin_type: Patch<Option<TypeName>>,
    #[schemars(length(max = 200))]
    name: Patch<Option<String>>,
    /// At most 64 KiB.
    #[schemars(extend("x-text" = LINES))]
    description: Patch<Option<String>>,
    /// The address of a picture.
    #[schemars(length(max = 800))]
    icon: Patch<Option<String>>,
    /// What may be configured; at most 64 KiB, as all free-form values.
    config_schema: Patch<FreeForm>,
    /// The version.
    #[schemars(length(max = 200))]
    tag: Patch<Option<String>>,
    /// Whether every organization sees it; needs the scope `operator`.
    is_global: Patch<bool>,
    /// What it can do; ignored once there is a source, which knows better.
    capabilities: Patch<FreeForm>,
    /// What it counts.
    metrics: Patch<Option<Value>>,
    /// What users may ask it to do.
    public_jobs: Patch<Option<Value>>,
}

impl From<PatchBody> for PluginFields {
    fn from(body: PatchBody) -> Self {
        let plugin_type = body.plugin_type.sent();
        Self {
            plugin_type: plugin_type.map(|kind| kind.map(PluginType::from)),
            name: body.name.sent(),
            description: body.description.sent(),
            icon: body.icon.sent(),
            config_schema: body.config_schema.sent().map(|value| value.0),
            tag: body.tag.sent(),
            is_global: body.is_global.sent(),
            capabilities: body.capabilities.sent().map(|value| value.0),
            metrics: body.metrics.sent(),
            public_jobs: body.public_jobs.sent(),
        }
    }
}

/// What a plugin is made of; everything may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewPlugin")]
#[serde(default)]
pub(super) struct NewBody {
    #[serde(flatten)]
    pub(super) fields: PatchBody,
    /// Where the catalogue has it, to install it from there.
    #[schemars(length(max = 800))]
    pub(super) url: Patch<Option<String>>,
}

/// A field that is read only: whatever is sent is left alone.
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

/// Fields of the plugin and files of its source: every name that is no field is a file, with its
/// text, or null to delete it. At most 200 files of 5 MiB in all.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PluginSourceChange")]
#[serde(default)]
pub(super) struct SourceBody {
    #[serde(flatten)]
    pub(super) fields: PatchBody,
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
    /// Fields and files apart.
    pub(super) fn apart(self) -> (PluginFields, Vec<FileChange>) {
        let files = self.files.into_iter();
        let files = files.map(|(name, source)| FileChange { name, source });
        (self.fields.into(), files.collect())
    }
}

/// A plugin.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Plugin")]
pub(super) struct PluginBody {
    id: i64,
    /// Where the code comes from.
    plugin_type: Option<TypeName>,
    name: Option<String>,
    description: Option<String>,
    /// Where the catalogue has it.
    url: Option<String>,
    /// The address of a picture.
    icon: Option<String>,
    /// What may be configured.
    config_schema: Value,
    /// The version that is installed.
    tag: Option<String>,
    /// The version that the catalogue last had.
    latest_tag: Option<String>,
    /// Whether every organization sees it.
    is_global: bool,
    /// Who made it.
    organization_id: Uuid,
    organization_name: String,
    /// What it can do.
    capabilities: Value,
    /// What it counts.
    metrics: Option<Value>,
    /// What users may ask it to do.
    public_jobs: Option<Value>,
}

impl From<SeenPlugin> for PluginBody {
    fn from(seen: SeenPlugin) -> Self {
        let url = seen.shown_url();
        let plugin = seen.plugin;
        Self {
            id: plugin.id,
            plugin_type: plugin.plugin_type.map(TypeName::from),
            name: plugin.name,
            description: plugin.description,
            url,
            icon: plugin.icon,
            config_schema: plugin.config_schema,
            tag: plugin.tag,
            latest_tag: plugin.latest_tag,
            is_global: plugin.is_global,
            organization_id: plugin.organization_id,
            organization_name: seen.organization_name,
            capabilities: plugin.capabilities,
            metrics: plugin.metrics,
            public_jobs: plugin.public_jobs,
        }
    }
}

/// A plugin with the files of its source.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PluginWithSource")]
pub(super) struct SourceAnswer {
    #[serde(flatten)]
    plugin: PluginBody,
    /// The text of each file by its name.
    source: BTreeMap<String, String>,
}

impl From<PluginFiles> for SourceAnswer {
    fn from(found: PluginFiles) -> Self {
        Self {
            plugin: found.seen.into(),
            source: found.files.into_iter().collect(),
        }
    }
}

/// A plugin after a look at the catalogue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CheckedPlugin")]
pub(super) struct CheckedAnswer {
    #[serde(flatten)]
    record: PluginBody,
    /// The same once more, where some clients look for it.
    plugin: PluginBody,
}

impl From<SeenPlugin> for CheckedAnswer {
    fn from(seen: SeenPlugin) -> Self {
        let plugin = PluginBody::from(seen);
        Self {
            record: plugin.clone(),
            plugin,
        }
    }
}
