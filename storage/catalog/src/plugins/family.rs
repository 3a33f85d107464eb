//! The five views of the plugin table.

use serde_json::{Value, json};

/// A view: the plugins that can do a certain thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// All of them.
    Plugins,
    /// They get events that were stored.
    Destinations,
    /// They bring code to pages.
    FrontendApps,
    /// They bring data in by the clock.
    ImportApps,
    /// They change events before they are stored.
    Transformations,
}

impl Family {
    /// All views.
    pub const ALL: [Self; 5] = [
        Self::Plugins,
        Self::Destinations,
        Self::FrontendApps,
        Self::ImportApps,
        Self::Transformations,
    ];

    /// Its segment in paths.
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

    /// What a plugin can do until it has a source: enough to be seen where it was made.
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

/// Which views show a plugin; kept in columns, so that lists are filtered by the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) destination: bool,
    pub(super) frontend_app: bool,
    pub(super) import_app: bool,
    pub(super) transformation: bool,
}

impl Seen {
    /// By its capabilities, whatever JSON they are: they may be the caller's.
    pub(super) fn by(capabilities: &Value) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_decide_the_views() {
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
            let seen = Seen::by(&capabilities);
            let letters = [
                (seen.destination, "D"),
                (seen.frontend_app, "F"),
                (seen.import_app, "I"),
                (seen.transformation, "T"),
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
    fn the_default_is_seen_where_it_was_made() {
        for family in Family::ALL {
            let seen = Seen::by(&family.default_capabilities());
            let here = match family {
                Family::Plugins => true,
                Family::Destinations => seen.destination,
                Family::FrontendApps => seen.frontend_app,
                Family::ImportApps => seen.import_app,
                Family::Transformations => seen.transformation,
            };
            assert!(here, "{family:?}");
        }
    }
}
