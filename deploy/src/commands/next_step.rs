//! Follow-up commands that are printed: each repeats the options of this command line, so that it
//! can be pasted.

use clap::{Arg, ArgMatches, Command, parser::ValueSource};
use millrace_rows::is_control;
use std::borrow::Cow;

/// Command line of this process.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Matches of the innermost command, with the settings that were given to any.
    matches: ArgMatches,
    root: Command,
}

impl Invocation {
    /// Creates it from the parsed command line.
    #[must_use]
    pub fn new(root: Command, matches: &ArgMatches) -> Self {
        let mut innermost = matches;
        while let Some((_, inner)) = innermost.subcommand() {
            innermost = inner;
        }
        Self {
            matches: innermost.clone(),
            root,
        }
    }

    /// Formats a command by its path, such as `import load`, with the options of this command line
    /// that it has as well, except those of these names.
    #[must_use]
    pub fn command(&self, path: &str, without: &[&str]) -> String {
        let mut command = Some(&self.root);
        for name in path.split(' ') {
            command = command.and_then(|command| command.find_subcommand(name));
        }
        let own = command.into_iter().flat_map(Command::get_arguments);
        let settings = self.root.get_arguments().filter(|arg| arg.is_global_set());
        let mut line = format!("millrace {path}");
        let mut files = String::new();
        for arg in own.filter(|arg| !arg.is_global_set()).chain(settings) {
            if without.contains(&arg.get_id().as_str()) || !self.is_given(arg) {
                continue;
            }
            let Some(name) = arg.get_long() else {
                self.values(arg).for_each(|value| push(&mut files, &value));
                continue;
            };
            if !arg.get_action().takes_values() {
                line += &format!(" --{name}");
                continue;
            }
            // After a space, the value of such an option would be an argument of the command.
            let is_joined = arg.is_require_equals_set();
            for value in self.values(arg) {
                let between = if is_joined { '=' } else { ' ' };
                line += &format!(" --{name}{between}{}", quoted(&value));
            }
        }
        line + &files
    }

    fn is_given(&self, arg: &Arg) -> bool {
        let id = arg.get_id().as_str();
        self.matches.try_contains_id(id).is_ok()
            && self.matches.value_source(id) == Some(ValueSource::CommandLine)
    }

    /// Values that an argument was given. A secret is replaced by its name.
    fn values(&self, arg: &Arg) -> impl Iterator<Item = String> {
        let id = arg.get_id().as_str();
        let secret = arg.is_hide_env_values_set().then(|| id.to_uppercase());
        let values = self.matches.get_raw(id);
        values.into_iter().flatten().map(move |value| {
            let value = value.to_string_lossy().into_owned();
            secret.clone().unwrap_or(value)
        })
    }
}

fn push(line: &mut String, value: &str) {
    line.push(' ');
    line.push_str(&quoted(value));
}

/// Quotes a word for a shell's command line.
#[must_use]
pub fn quoted(word: &str) -> Cow<'_, str> {
    if word.contains(is_control) {
        return Cow::Owned(quoted_controls(word));
    }
    // A word with a zero byte is no argument, and was none.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}

/// Quotes a word with control characters, which are written as escapes of bash.
fn quoted_controls(word: &str) -> String {
    let escaped = word.chars().map(|c| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_control(c) && c > '\u{ffff}' => format!("\\U{:08x}", u32::from(c)),
        c if is_control(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn invocation(line: &[&str]) -> Invocation {
        let command = cli::command();
        let matches = command.clone().try_get_matches_from(line).unwrap();
        Invocation::new(command, &matches)
    }

    #[test]
    fn a_follow_up_command_repeats_the_options_that_both_have() {
        let line = [
            "millrace",
            "--data-dir",
            "other data",
            "import",
            "load",
            "a.csv",
            "it's.csv",
            "--staging",
            "st",
            "--url",
            "http://127.0.0.1:9",
            "--project-key",
            "phc_x",
            "--mapping=map.toml",
            "--parallel-files",
            "3",
            "--restart",
            "--clickhouse-password",
            "canary",
            "--json",
        ];
        let invocation = invocation(&line);
        let settings = "--data-dir 'other data' --clickhouse-password CLICKHOUSE_PASSWORD";
        let table = [
            (
                "import load",
                &["files", "restart", "json"][..],
                format!(
                    "millrace import load --staging st --mapping map.toml --url http://127.0.0.1:9 \
                     --project-key phc_x --parallel-files 3 {settings}"
                ),
            ),
            (
                "import reconcile",
                &["json"],
                format!(
                    "millrace import reconcile --staging st --mapping map.toml --url http://127.0.0.1:9 \
                     --project-key phc_x {settings} a.csv \"it's.csv\""
                ),
            ),
            (
                "import report",
                &[],
                format!("millrace import report --staging st --json {settings}"),
            ),
            ("purge", &[], format!("millrace purge {settings}")),
        ];
        for (path, without, expected) in table {
            assert_eq!(invocation.command(path, without), expected);
        }
    }

    /// Valid value for an option, by the name of its values.
    fn value(arg: &Arg) -> String {
        let possible = arg.get_possible_values();
        if let Some(first) = possible.first() {
            return first.get_name().to_owned();
        }
        let names = arg.get_value_names().unwrap_or_default();
        let name = names.first().map_or("", |name| name.as_str());
        match (arg.get_id().as_str(), name) {
            ("since", _) => "2026-11-20T00:00:00Z",
            ("log_level", _) => "debug",
            ("otlp_sampling_ratio", _) => "0.7",
            ("clickhouse_replication", _) => "keeper",
            (_, "N" | "N|N%" | "SECONDS" | "DAYS" | "COUNT") => "7",
            (_, "ADDR") => "127.0.0.1:9",
            (_, "SIZE" | "BYTES") => "7GiB",
            (_, "FIELD=VALUE") => "a=b",
            _ => "7",
        }
        .to_owned()
    }

    /// An option that a follow-up command lacks would be lost silently: each option is given alone,
    /// to each command of the import, and must be in the printed command.
    #[test]
    fn every_option_of_an_import_is_repeated_in_its_own_follow_up_command() {
        let root = cli::command();
        let import = root.find_subcommand("import").unwrap();
        let (mut count, stages) = (0, ["check", "load", "reconcile", "report"]);
        for stage in stages {
            let command = import.find_subcommand(stage).unwrap();
            let settings = root.get_arguments().filter(|arg| arg.is_global_set());
            for arg in command.get_arguments().chain(settings) {
                let Some(name) = arg.get_long().filter(|name| *name != "help") else {
                    continue;
                };
                let option = format!("--{name}");
                let mut line = vec!["millrace", "import", stage, &option];
                let value = value(arg);
                let joined = format!("{option}={value}");
                if arg.is_require_equals_set() {
                    line.pop();
                    line.push(&joined);
                } else if arg.get_action().takes_values() {
                    line.push(&value);
                }
                let matches = root.clone().try_get_matches_from(&line);
                let matches = matches.unwrap_or_else(|error| panic!("{line:?}: {error}"));
                let invocation = Invocation::new(root.clone(), &matches);
                let printed = invocation.command(&format!("import {stage}"), &[]);
                let words = shlex::split(&printed).unwrap();
                let words: Vec<_> = words.iter().flat_map(|word| word.split('=')).collect();
                assert!(words.contains(&option.as_str()), "{printed}");
                let is_secret = arg.is_hide_env_values_set();
                let is_there = words.contains(&value.as_str());
                assert!(
                    !arg.get_action().takes_values() || is_there != is_secret,
                    "{printed}"
                );
                count += 1;
            }
        }
        assert!(count > 100, "{count}");
    }
}
