//! Fields of a plugin, and their validation.

use super::source_url::URL_CHARS_MAX;
use millrace_catalog::entities::plugins::{self, PluginType};
use millrace_catalog::text::LINES;
use millrace_catalog::{ChangeError, Patch, StoredJson};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sea_orm::prelude::Json;
use serde::Deserialize;

/// Longest name and tag, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Most bytes of the description and the free-form values (as JSON), each and all together. A list
/// returns up to 1000 plugins at once.
const FIELD_BYTES_MAX: usize = 64 * 1024;

/// Writable fields of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "PatchPlugin")]
#[serde(default)]
pub struct PluginFields {
    /// Origin of the code.
    pub plugin_type: Patch<Option<PluginType>>,
    /// Name of the plugin.
    #[schemars(length(max = NAME_CHARS_MAX))]
    pub name: Patch<Option<String>>,
    /// Description of the plugin, at most 64 KiB.
    #[schemars(extend("x-text" = LINES))]
    pub description: Patch<Option<String>>,
    /// Address of a picture.
    #[schemars(length(max = URL_CHARS_MAX))]
    pub icon: Patch<Option<String>>,
    /// Schema of the plugin's settings. All free-form values have at most 64 KiB together.
    #[schemars(schema_with = "free_form_schema")]
    pub config_schema: Patch<Json>,
    /// Version of the plugin.
    #[schemars(length(max = NAME_CHARS_MAX))]
    pub tag: Patch<Option<String>>,
    /// True if every organization sees the plugin; needs the scope `operator`.
    pub is_global: Patch<bool>,
    /// Capabilities of the plugin; ignored once it has a source, which determines them.
    #[schemars(schema_with = "free_form_schema")]
    pub capabilities: Patch<Json>,
    /// Metrics that the plugin counts.
    pub metrics: Patch<Option<Json>>,
    /// Jobs that users can start.
    pub public_jobs: Patch<Option<Json>>,
}

/// Input for a new plugin; everything may be left out.
#[derive(Clone, Debug, Default)]
pub struct NewPlugin {
    /// Fields of the client.
    pub fields: PluginFields,
    /// Address in a catalogue.
    pub url: Option<String>,
    /// Release at that address.
    pub release: Option<PluginRelease>,
}

/// Schema of any JSON value but null.
fn free_form_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["object", "array", "string", "number", "boolean"],
        // Client generators require the type of a list's items.
        "items": {},
    })
}

/// Release of a plugin in a catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRelease {
    /// Name.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Address of a picture.
    pub icon: Option<String>,
    /// Version.
    pub tag: String,
    /// Schema of the configuration.
    pub config_schema: Json,
    /// Name and text of each file.
    pub files: Vec<(String, String)>,
}

impl PluginFields {
    /// Change that only withdraws a global plugin from all other organizations, which must be
    /// possible before it can be deleted.
    pub(super) fn withdrawn() -> Self {
        Self {
            is_global: Patch::Value(false),
            ..Self::default()
        }
    }

    /// Validates lengths, and that every database can store the values.
    pub(super) fn check(&self) -> Result<(), ChangeError> {
        let texts = [
            ("name", &self.name),
            ("description", &self.description),
            ("icon", &self.icon),
            ("tag", &self.tag),
        ];
        for (field, text) in texts {
            check_text(field, text.as_sent().and_then(Option::as_deref))?;
        }
        let (metrics, public_jobs) = (self.metrics.as_sent(), self.public_jobs.as_sent());
        let values = [
            ("config_schema", self.config_schema.as_sent()),
            ("capabilities", self.capabilities.as_sent()),
            ("metrics", metrics.and_then(Option::as_ref)),
            ("public_jobs", public_jobs.and_then(Option::as_ref)),
        ];
        for (field, value) in values {
            value.map_or(Ok(()), |value| fits(field, value))?;
        }
        Ok(())
    }

    /// Sets the given fields of a plugin, except `is_global` and `capabilities`.
    pub(super) fn apply(self, plugin: &mut plugins::Model) {
        self.plugin_type.apply_to(&mut plugin.plugin_type);
        self.name.apply_to(&mut plugin.name);
        self.description.apply_to(&mut plugin.description);
        self.icon.apply_to(&mut plugin.icon);
        let config_schema = self.config_schema.map(StoredJson);
        config_schema.apply_to(&mut plugin.config_schema);
        self.tag.apply_to(&mut plugin.tag);
        let stored = |value: Option<Json>| value.map(StoredJson);
        self.metrics.map(stored).apply_to(&mut plugin.metrics);
        let public_jobs = self.public_jobs.map(stored);
        public_jobs.apply_to(&mut plugin.public_jobs);
    }
}

/// Validates the text of a field.
pub(super) fn check_text(field: &'static str, text: Option<&str>) -> Result<(), ChangeError> {
    let text = text.unwrap_or_default();
    let (length, longest, unit) = match field {
        "description" => (text.len(), FIELD_BYTES_MAX, "bytes"),
        "icon" => (text.chars().count(), URL_CHARS_MAX, "characters"),
        _ => (text.chars().count(), NAME_CHARS_MAX, "characters"),
    };
    if length > longest {
        let detail = format!("{field} may have at most {longest} {unit}");
        return Err(ChangeError::invalid(field, "max_length", detail));
    }
    no_null(field, !text.contains('\0'))
}

/// Validates a free-form value.
pub(super) fn fits(field: &'static str, value: &Json) -> Result<(), ChangeError> {
    if value.to_string().len() > FIELD_BYTES_MAX {
        let detail = format!("{field} may have at most {FIELD_BYTES_MAX} bytes as JSON");
        return Err(ChangeError::invalid(field, "max_length", detail));
    }
    no_null(field, !holds_null_character(value))
}

/// Refuses a plugin whose free-form fields are too large together, unless they did not grow: older
/// values may stay.
pub(super) fn fit_together(
    before: Option<&plugins::Model>,
    after: &plugins::Model,
) -> Result<(), ChangeError> {
    let all = |plugin: &plugins::Model| free_form(plugin).iter().map(|(bytes, _)| bytes).sum();
    let bytes: usize = all(after);
    if bytes <= FIELD_BYTES_MAX || before.is_some_and(|before| bytes <= all(before)) {
        return Ok(());
    }
    let largest = free_form(after).into_iter().max().map(|(_, field)| field);
    let detail = format!(
        "description, config_schema, capabilities, metrics and public_jobs may have {FIELD_BYTES_MAX} \
         bytes together, and have {bytes}; this is the largest of them"
    );
    Err(ChangeError::invalid(largest, "max_length", detail))
}

/// Lengths and names of a plugin's free-form fields; empty values count as 0.
fn free_form(plugin: &plugins::Model) -> [(usize, &'static str); 5] {
    let json_bytes = |value: &StoredJson| Some(value.to_string().len()).filter(|bytes| *bytes > 4);
    let json = |value: Option<&StoredJson>| value.and_then(json_bytes).unwrap_or_default();
    [
        (
            plugin.description.as_ref().map_or(0, String::len),
            "description",
        ),
        (json(Some(&plugin.config_schema)), "config_schema"),
        (json(Some(&plugin.capabilities)), "capabilities"),
        (json(plugin.metrics.as_ref()), "metrics"),
        (json(plugin.public_jobs.as_ref()), "public_jobs"),
    ]
}

fn no_null(field: &'static str, is_so: bool) -> Result<(), ChangeError> {
    if is_so {
        return Ok(());
    }
    let detail = format!("{field} may not hold null characters");
    Err(ChangeError::invalid(field, "invalid_input", detail))
}

/// Returns true if a value holds a null character, which PostgreSQL cannot store, neither in texts
/// nor in JSON.
fn holds_null_character(value: &Json) -> bool {
    match value {
        Json::String(text) => text.contains('\0'),
        Json::Array(items) => items.iter().any(holds_null_character),
        Json::Object(fields) => fields
            .iter()
            .any(|(name, field)| name.contains('\0') || holds_null_character(field)),
        _ => false,
    }
}
