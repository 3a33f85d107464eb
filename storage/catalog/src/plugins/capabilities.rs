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

/// What the files of a plugin, as (name, text), make it able to do. `None`: there is no main
/// file.
pub(super) fn capabilities_of(files: &[(String, String)]) -> Option<Capabilities> {
    let exports = exports_of(main_file(files)?);
    let among = |known: &[&str]| -> Vec<String> {
        let exported = known.iter().filter(|name| exports.has(name));
        exported.map(|name| (*name).to_owned()).collect()
    };
    Some(Capabilities {
        methods: among(&METHODS),
        scheduled_tasks: among(&SCHEDULED_TASKS),
        jobs: exports.members_of(JOBS),
    })
}

fn main_file(files: &[(String, String)]) -> Option<&str> {
    let text_of = |name: &str| {
        let file = files.iter().find(|(file, _)| file == name);
        file.map(|(_, text)| text.as_str())
    };
    let manifest = text_of(MANIFEST).and_then(|text| serde_json::from_str(text).ok());
    let named = manifest
        .as_ref()
        .and_then(|manifest: &Value| manifest.get("main"));
    let named = named
        .and_then(Value::as_str)
        .map(|name| name.trim_start_matches("./"));
    named.into_iter().chain(MAIN_FILES).find_map(text_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<Capabilities> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        capabilities_of(&files)
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
