//! Use of colors in output: on terminals, unless the user's environment says otherwise.
//!
//! | Variable | Means |
//! |---|---|
//! | `NO_COLOR`, not empty | no colors (no-color.org) |
//! | `CLICOLOR_FORCE`, neither empty nor 0 | colors, also in pipes and files |
//! | `CLICOLOR=0`, `TERM=dumb` | no colors on terminals either |
//!
//! The first that is present decides.

use std::ffi::OsString;

/// Returns true if output has colors; `is_terminal` is true of what is written to a terminal.
pub fn are_wanted(is_terminal: bool) -> bool {
    decide(is_terminal, |name| std::env::var_os(name))
}

fn decide(is_terminal: bool, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let has = |name: &str, wanted: &str| variable(name).is_some_and(|value| *value == *wanted);
    if is_set("NO_COLOR") {
        return false;
    }
    if is_set("CLICOLOR_FORCE") && !has("CLICOLOR_FORCE", "0") {
        return true;
    }
    is_terminal && !has("CLICOLOR", "0") && !has("TERM", "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case<'a> = (bool, &'a [(&'a str, &'a str)], bool);

    #[test]
    fn colors_follow_the_terminal_and_the_variables_over_it() {
        let table: [Case<'_>; 13] = [
            (true, &[], true),
            (false, &[], false),
            (true, &[("NO_COLOR", "1")], false),
            (true, &[("NO_COLOR", "0")], false),
            (true, &[("NO_COLOR", "")], true),
            (true, &[("CLICOLOR", "0")], false),
            (true, &[("CLICOLOR", "1")], true),
            (false, &[("CLICOLOR", "1")], false),
            (false, &[("CLICOLOR_FORCE", "1")], true),
            (false, &[("CLICOLOR_FORCE", "0")], false),
            (true, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (false, &[("CLICOLOR_FORCE", "1"), ("CLICOLOR", "0")], true),
            (true, &[("TERM", "dumb")], false),
        ];
        for (is_terminal, variables, expected) in table {
            let variable = |asked: &str| {
                let mut variables = variables.iter();
                let found = variables.find(|(name, _)| *name == asked);
                found.map(|(_, value)| OsString::from(value))
            };
            let decided = decide(is_terminal, variable);
            assert_eq!(decided, expected, "{is_terminal} {variables:?}");
        }
    }
}
