//! Fields of a plugin, and their validation.

use super::source_url::URL_CHARS_MAX;
use millrace_catalog::entities::plugins::{self, PluginType};
use millrace_catalog::{ChangeError, StoredJson};
use sea_orm::prelude::Json;

/// Longest name and tag, in characters.
const NAME_CHARS_MAX: usize = 200;
/// Most bytes of the description and the free-form values (as JSON), each and all together. A list
/// returns up to 1000 plugins at once.
const FIELD_BYTES_MAX: usize = 64 * 1024;

/// Fields of a plugin that clients write; `None`: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFields {
    /// Origin of the code.
    pub plugin_type: Option<Option<PluginType>>,
    /// Name; at most 200 characters.
    pub name: Option<Option<String>>,
    /// Description; at most 64 KiB.
    pub description: Option<Option<String>>,
    /// Address of a picture; at most 800 characters.
    pub icon: Option<Option<String>>,
    /// Schema of the configuration, free-form; at most 64 KiB.
    pub config_schema: Option<Json>,
    /// Version; at most 200 characters.
    pub tag: Option<Option<String>>,
    /// True if every organization sees the plugin; only the operator changes it.
    pub is_global: Option<bool>,
    /// Capabilities, free-form; at most 64 KiB. Ignored if there is a source, which determines
    /// them.
    pub capabilities: Option<Json>,
    /// Metrics, free-form; at most 64 KiB.
    pub metrics: Option<Option<Json>>,
    /// Public jobs, free-form; at most 64 KiB.
    pub public_jobs: Option<Option<Json>>,
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
            is_global: Some(false),
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
            check_text(field, text.iter().flatten().map(String::as_str).next())?;
        }
        let values = [
            ("config_schema", self.config_schema.as_ref()),
            ("capabilities", self.capabilities.as_ref()),
            ("metrics", self.metrics.iter().flatten().next()),
            ("public_jobs", self.public_jobs.iter().flatten().next()),
        ];
        for (field, value) in values {
            value.map_or(Ok(()), |value| fits(field, value))?;
        }
        Ok(())
    }

    /// Sets the given fields of a plugin, except `is_global` and `capabilities`.
    pub(super) fn apply(self, plugin: &mut plugins::Model) {
        set(&mut plugin.plugin_type, self.plugin_type);
        set(&mut plugin.name, self.name);
        set(&mut plugin.description, self.description);
        set(&mut plugin.icon, self.icon);
        set(
            &mut plugin.config_schema,
            self.config_schema.map(StoredJson),
        );
        set(&mut plugin.tag, self.tag);
        let stored = |value: Option<Json>| value.map(StoredJson);
        set(&mut plugin.metrics, self.metrics.map(stored));
        set(&mut plugin.public_jobs, self.public_jobs.map(stored));
    }
}

fn set<V>(field: &mut V, given: Option<V>) {
    if let Some(value) = given {
        *field = value;
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
