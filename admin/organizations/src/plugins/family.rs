//! Families of plugins.

use millrace_catalog::StoredJson;
use millrace_catalog::entities::plugins;
use sea_orm::prelude::Json;
use serde_json::{Value, json};

/// Family: the plugins with a certain capability. A plugin may be in several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PluginFamily {
    /// All plugins.
    Plugins,
    /// Plugins that get stored events.
    Destinations,
    /// Plugins that bring code to pages.
    FrontendApps,
    /// Plugins that import data on a schedule.
    ImportApps,
    /// Plugins that change events before they are stored.
    Transformations,
}

impl PluginFamily {
    /// All families.
    pub const ALL: [Self; 5] = [
        Self::Plugins,
        Self::Destinations,
        Self::FrontendApps,
        Self::ImportApps,
        Self::Transformations,
    ];

    /// Segment in paths of the API.
    #[must_use]
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Plugins => "plugins",
            Self::Destinations => "pipeline_destinations",
            Self::FrontendApps => "pipeline_frontend_apps",
            Self::ImportApps => "pipeline_import_apps",
            Self::Transformations => "pipeline_transformations",
        }
    }

    /// Capabilities of a plugin without a source, which put it into the family in which it was
    /// created.
    #[must_use]
    pub fn default_capabilities(self) -> Value {
        let with = |methods: &[&str], scheduled_tasks: &[&str]| json!({"methods": methods, "jobs": [], "scheduled_tasks": scheduled_tasks});
        match self {
            Self::Plugins => json!({}),
            Self::Destinations => with(&["onEvent"], &[]),
            Self::FrontendApps => with(&[], &[]),
            Self::ImportApps => with(&[], &["runEveryMinute"]),
            Self::Transformations => with(&["processEvent"], &[]),
        }
    }
}

/// Families of a plugin, stored in columns so that the database filters lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FamilyFlags {
    pub(super) destination: bool,
    pub(super) frontend_app: bool,
    pub(super) import_app: bool,
    pub(super) transformation: bool,
}

impl FamilyFlags {
    /// Derives the families from capabilities, which may be any JSON of the caller.
    pub(super) fn of(capabilities: &Value) -> Self {
        let texts = |name: &str| -> Vec<&str> {
            let list = capabilities.get(name).and_then(Value::as_array);
            let texts = list.into_iter().flatten().filter_map(Value::as_str);
            texts.collect()
        };
        let methods = texts("methods");
        let scheduled = !texts("scheduled_tasks").is_empty();
        let destination = methods.contains(&"onEvent") || methods.contains(&"composeWebhook");
        let transformation = methods.contains(&"processEvent");
        let other_methods = !methods.is_empty() && !destination && !transformation;
        Self {
            destination,
            transformation,
            frontend_app: methods.is_empty() && !scheduled,
            import_app: scheduled || other_methods,
        }
    }
}

/// Sets the capabilities of a plugin, and with them its families.
pub(super) fn set_capabilities(plugin: &mut plugins::Model, capabilities: Json) {
    let flags = FamilyFlags::of(&capabilities);
    plugin.capabilities = StoredJson(capabilities);
    plugin.is_destination = flags.destination;
    plugin.is_frontend_app = flags.frontend_app;
    plugin.is_import_app = flags.import_app;
    plugin.is_transformation = flags.transformation;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_determine_the_families() {
        let table = [
            (json!({}), "F"),
            (json!(null), "F"),
            (json!("free-form"), "F"),
            (json!({"jobs": ["a"]}), "F"),
            (json!({"methods": ["processEvent"]}), "T"),
            (json!({"methods": ["onEvent"]}), "D"),
            (json!({"methods": ["composeWebhook", "setupPlugin"]}), "D"),
            (json!({"methods": ["processEvent", "onEvent"]}), "DT"),
            (json!({"scheduled_tasks": ["runEveryDay"]}), "I"),
            (
                json!({"methods": ["processEvent"], "scheduled_tasks": ["runEveryDay"]}),
                "IT",
            ),
            (json!({"methods": ["setupPlugin"]}), "I"),
        ];
        for (capabilities, views) in table {
            let flags = FamilyFlags::of(&capabilities);
            let letters = [
                (flags.destination, "D"),
                (flags.frontend_app, "F"),
                (flags.import_app, "I"),
                (flags.transformation, "T"),
            ];
            let found: String = letters
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, view)| *view)
                .collect();
            assert_eq!(found, views, "{capabilities}");
        }
    }

    #[test]
    fn default_capabilities_are_in_their_own_family() {
        for family in PluginFamily::ALL {
            let flags = FamilyFlags::of(&family.default_capabilities());
            let here = match family {
                PluginFamily::Plugins => true,
                PluginFamily::Destinations => flags.destination,
                PluginFamily::FrontendApps => flags.frontend_app,
                PluginFamily::ImportApps => flags.import_app,
                PluginFamily::Transformations => flags.transformation,
            };
            assert!(here, "{family:?}");
        }
    }
}
