//! What a plugin can do, read from its source; the code never runs.
//!
//! The names that the main file exports decide.

use super::exports::exports_of;
use super::family::Capabilities;
use serde_json::Value;

/// The functions that the platform calls; other exports are the plugin's own affair.
const METHODS: [&str; 7] = [
    "setupPlugin",
    "teardownPlugin",
    "getSettings",
    "processEvent",
    "onEvent",
    "exportEvents",
    "composeWebhook",
];
/// The functions that run by the clock.
const SCHEDULED_TASKS: [&str; 3] = ["runEveryMinute", "runEveryHour", "runEveryDay"];
/// The object whose members are jobs.
const JOBS: &str = "jobs";
/// The main file, where `plugin.json` names none.
const MAIN_FILES: [&str; 4] = ["index.ts", "index.js", "dist/index.js", "src/index.ts"];
/// What describes a plugin.
pub(super) const MANIFEST: &str = "plugin.json";

/// What its main file makes a plugin able to do.
pub(super) fn capabilities_of(source: &str) -> Capabilities {
    let exports = exports_of(source);
    let among = |known: &[&str]| -> Vec<String> {
        let exported = known.iter().filter(|name| exports.has(name));
        exported.map(|name| (*name).to_owned()).collect()
    };
    Capabilities {
        methods: among(&METHODS),
        scheduled_tasks: among(&SCHEDULED_TASKS),
        jobs: exports.members_of(JOBS),
    }
}

/// Name and text of the main file among files, as (name, text).
pub(super) fn main_file(files: &[(String, String)]) -> Option<(&str, &str)> {
    let of_name = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        file.map(|(name, text)| (name.as_str(), text.as_str()))
    };
    let manifest = of_name(MANIFEST).and_then(|(_, text)| serde_json::from_str(text).ok());
    let named = manifest
        .as_ref()
        .and_then(|manifest: &Value| manifest.get("main"));
    let named = named
        .and_then(Value::as_str)
        .map(|name| name.trim_start_matches("./"));
    named.into_iter().chain(MAIN_FILES).find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<Capabilities> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        main_file(&files).map(|(_, text)| capabilities_of(text))
    }

    #[test]
    fn known_exports_become_capabilities() {
        let source = "export async function processEvent(event) { return event }\n\
            export function helper() {}\n\
            export const runEveryHour = () => {}, jobs = { retry: async () => {}, 'clean up'() {} }";
        let found = of(&[("index.ts", source)]).unwrap();
        assert_eq!(found.methods, ["processEvent"]);
        assert_eq!(found.scheduled_tasks, ["runEveryHour"]);
        assert_eq!(found.jobs, ["retry", "clean up"]);
    }

    #[test]
    fn the_manifest_names_the_main_file() {
        let on_event = "module.exports = { onEvent() {} }";
        let table = [
            (
                vec![
                    ("plugin.json", r#"{"main":"./lib/a.js"}"#),
                    ("lib/a.js", on_event),
                ],
                1,
            ),
            (
                vec![
                    ("plugin.json", r#"{"main":"gone.js"}"#),
                    ("index.js", on_event),
                ],
                1,
            ),
            (
                vec![("plugin.json", "no JSON"), ("dist/index.js", on_event)],
                1,
            ),
            (vec![("index.js", "")], 0),
        ];
        for (files, methods) in table {
            assert_eq!(of(&files).unwrap().methods.len(), methods, "{files:?}");
        }
        assert!(of(&[("plugin.json", "{}"), ("README.md", on_event)]).is_none());
    }
}
