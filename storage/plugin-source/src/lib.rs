//! What a plugin can do, read from its source; the code never runs.
//!
//! The parser is C code and the source a customer's: ambiguous text overflows its stack, which ends
//! the process, and nothing can catch that. So this is a crate of its own that no part of a server
//! may use (`deny.toml`): `millrace plugin-source`, a process with limits, has it to itself.
//!
//! The names that the main file exports decide.

#![forbid(unsafe_code)]

mod exports;
mod mistake;

pub use mistake::Mistake;

use exports::{exports_of, is_with_tags};
use serde::Serialize;

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

/// Functions, jobs and tasks that a module exports, as the catalog keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The functions that the platform calls.
    pub methods: Vec<String>,
    /// Jobs that can be asked for in the background.
    pub jobs: Vec<String>,
    /// Functions that run by the clock.
    pub scheduled_tasks: Vec<String>,
}

/// Reads the text of a main file. May overflow the stack, abort, or take long.
///
/// # Errors
///
/// It has mistakes, and nothing that the platform could call is seen beside them. Where something is, a mistake may be
/// the parser's: it does not know all that engines do.
pub fn capabilities_of(source: &str) -> Result<Capabilities, Mistake> {
    let (exports, mistake) = exports_of(source);
    let among = |known: &[&str]| -> Vec<String> {
        let exported = known.iter().filter(|name| exports.has(name));
        exported.map(|name| (*name).to_owned()).collect()
    };
    let found = Capabilities {
        methods: among(&METHODS),
        jobs: exports.members_of(JOBS),
        scheduled_tasks: among(&SCHEDULED_TASKS),
    };
    match mistake {
        Some(mistake) if found == Capabilities::default() && !is_with_tags(source) => Err(mistake),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_exports_become_capabilities() {
        let source = "export async function processEvent(event) { return event }\n\
            export function helper() {}\n\
            export const runEveryHour = () => {}, jobs = { retry: async () => {}, 'clean up'() {} }";
        let found = capabilities_of(source).unwrap();
        assert_eq!(found.methods, ["processEvent"]);
        assert_eq!(found.scheduled_tasks, ["runEveryHour"]);
        assert_eq!(found.jobs, ["retry", "clean up"]);
    }

    #[test]
    fn a_text_that_is_no_code_is_told_where_it_stops_being_one() {
        // The place is that of the statement, or of what is missing: which of them is the grammar's affair.
        let table = [
            ("function processEvent(event) {", 1),
            ("const a = 1\nexport functoin onEvent() {}", 2),
            ("// fine\n\nlet x = = 2", 3),
            ("{\"name\": \"a\"", 1),
            ("This is not code at all.", 1),
        ];
        for (source, line) in table {
            let mistake = capabilities_of(source).expect_err(source);
            assert_eq!(mistake.line, line, "{source}: {mistake}");
        }
    }

    #[test]
    fn a_text_is_taken_that_does_nothing_or_that_is_read_in_part() {
        for source in [
            "",
            "export const nothing = 1",
            "// a comment",
            "export function inject() { return <div class='a'>hello</div> }",
            "export function onEvent() {}\nlet x = = 2",
            "exports.onEvent = () => {}; @@@",
        ] {
            capabilities_of(source).unwrap_or_else(|mistake| panic!("{source}: {mistake}"));
        }
    }
}
