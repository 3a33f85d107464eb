//! What may be said of a plugin.

use super::address::URL_CHARS_MAX;
use crate::entities::plugins::{self, PluginType};
use crate::error::ChangeError;
use sea_orm::prelude::Json;

/// The longest name and tag, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The fields of a plugin that clients write; `None`: not given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginFields {
    /// Where its code comes from.
    pub plugin_type: Option<Option<PluginType>>,
    /// At most 200 characters.
    pub name: Option<Option<String>>,
    /// For people.
    pub description: Option<Option<String>>,
    /// The address of a picture.
    pub icon: Option<Option<String>>,
    /// Free-form.
    pub config_schema: Option<Json>,
    /// At most 200 characters.
    pub tag: Option<Option<String>>,
    /// Whether every organization sees it; the operator's to change.
    pub is_global: Option<bool>,
    /// Free-form; ignored once there is a source, which knows better.
    pub capabilities: Option<Json>,
    /// Free-form.
    pub metrics: Option<Option<Json>>,
    /// Free-form.
    pub public_jobs: Option<Option<Json>>,
}

/// What a catalogue offers under one address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginRelease {
    /// What people call it.
    pub name: String,
    /// For people.
    pub description: Option<String>,
    /// The address of a picture.
    pub icon: Option<String>,
    /// Its version.
    pub tag: String,
    /// What may be configured.
    pub config_schema: Json,
    /// Name and text of each file.
    pub files: Vec<(String, String)>,
}

impl PluginFields {
    /// Checks lengths.
    pub(super) fn check(&self) -> Result<(), ChangeError> {
        let texts = [
            ("name", &self.name, NAME_CHARS_MAX),
            ("tag", &self.tag, NAME_CHARS_MAX),
            ("icon", &self.icon, URL_CHARS_MAX),
        ];
        for (field, value, chars_max) in texts {
            let chars = value.iter().flatten().map(|text| text.chars().count());
            if chars.max().unwrap_or(0) > chars_max {
                let detail = format!("{field} may have at most {chars_max} characters");
                return Err(ChangeError::invalid(field, "max_length", detail));
            }
        }
        Ok(())
    }

    /// Sets what was given, except who sees the plugin and what it can do.
    pub(super) fn apply(self, plugin: &mut plugins::Model) {
        set(&mut plugin.plugin_type, self.plugin_type);
        set(&mut plugin.name, self.name);
        set(&mut plugin.description, self.description);
        set(&mut plugin.icon, self.icon);
        set(&mut plugin.config_schema, self.config_schema);
        set(&mut plugin.tag, self.tag);
        set(&mut plugin.metrics, self.metrics);
        set(&mut plugin.public_jobs, self.public_jobs);
    }
}

fn set<V>(field: &mut V, given: Option<V>) {
    if let Some(value) = given {
        *field = value;
    }
}
