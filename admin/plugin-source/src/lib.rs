//! Reads a plugin's capabilities from its source; the code never runs.
//!
//! The parser is C code, and the source comes from a customer: ambiguous source can overflow the
//! parser's stack, which ends the process and cannot be caught. So this is a crate of its own,
//! which only `millrace plugin-source`, a process with limits, may call (`deny.toml`).
//!
//! The capabilities follow from the names that the main file exports.

#![forbid(unsafe_code)]

mod module_exports;
mod syntax_error;

pub use syntax_error::SyntaxError;

use module_exports::{exports_of, is_tsx};
use serde::Serialize;

/// Functions that the platform calls; other exports are ignored.
const METHODS: [&str; 7] = [
    "setupPlugin",
    "teardownPlugin",
    "getSettings",
    "processEvent",
    "onEvent",
    "exportEvents",
    "composeWebhook",
];
/// Functions that run on a schedule.
const SCHEDULED_TASKS: [&str; 3] = ["runEveryMinute", "runEveryHour", "runEveryDay"];
/// Name of the object whose members are jobs.
const JOBS: &str = "jobs";

/// Functions, jobs and scheduled tasks that a module exports, as the catalog keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// The functions that the platform calls.
    pub methods: Vec<String>,
    /// Jobs that can be started in the background.
    pub jobs: Vec<String>,
    /// Functions that run on a schedule.
    pub scheduled_tasks: Vec<String>,
}

/// Reads the capabilities from the text of a main file. May overflow the stack, abort, or take
/// long.
///
/// # Errors
///
/// The text has syntax errors, and no function that the platform could call. With such a function
/// an error may be the parser's: it does not know all that engines do.
pub fn capabilities_of(source: &str) -> Result<Capabilities, SyntaxError> {
    let (exports, syntax_error) = exports_of(source);
    let among = |known: &[&str]| -> Vec<String> {
        let exported = known.iter().filter(|name| exports.has(name));
        exported.map(|name| (*name).to_owned()).collect()
    };
    let found = Capabilities {
        methods: among(&METHODS),
        jobs: exports.members_of(JOBS),
        scheduled_tasks: among(&SCHEDULED_TASKS),
    };
    match syntax_error {
        Some(syntax_error) if found == Capabilities::default() && !is_tsx(source) => {
            Err(syntax_error)
        }
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
    fn a_text_that_is_no_code_is_refused_with_the_line_of_its_first_error() {
        // The line of the statement, or of the missing token: the grammar decides which.
        let table = [
            ("function processEvent(event) {", 1),
            ("const a = 1\nexport functoin onEvent() {}", 2),
            ("// fine\n\nlet x = = 2", 3),
            ("{\"name\": \"a\"", 1),
            ("This is not code at all.", 1),
        ];
        for (source, line) in table {
            let syntax_error = capabilities_of(source).expect_err(source);
            assert_eq!(syntax_error.line, line, "{source}: {syntax_error}");
        }
    }

    #[test]
    fn a_text_without_capabilities_or_readable_in_part_is_accepted() {
        for source in [
            "",
            "export const nothing = 1",
            "// a comment",
            "export function inject() { return <div class='a'>hello</div> }",
            "export function onEvent() {}\nlet x = = 2",
            "exports.onEvent = () => {}; @@@",
        ] {
            capabilities_of(source)
                .unwrap_or_else(|syntax_error| panic!("{source}: {syntax_error}"));
        }
    }
}
