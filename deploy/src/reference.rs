//! `deploy/REFERENCE.md`: settings and commands, generated from the command line's definition.

use crate::cli::command;
use crate::setting_args;
use clap::{Arg, Command};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Reference

Generated from the program by `UPDATE=1 cargo test -p millrace the_reference_is_current`; a test
keeps it so. `millrace config` prints the settings of a server with their values and origin.

## Settings

Every setting is a flag (`--ingest-addr`), an environment variable (`MILLRACE_INGEST_ADDR`) and a
key of `millrace.toml` (`ingest_addr`); the first of these that is present wins.

| Setting | Default | Meaning |
|---|---|---|
";

const COMMANDS: &str = "
## Commands

Run a command where the server was started, or name its folder with `--data-dir`. `millrace COMMAND
--help` prints the same of a command, `millrace help settings` that of the settings, and `millrace
man --to DIR` writes manual pages.
";

/// Text of an argument in one line, safe in a table.
fn help_of(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let text = help.map(ToString::to_string).unwrap_or_default();
    let mut text = sentences(&text);
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| {
            let help = value.get_help().map(|help| format!(" ({help})"));
            format!("`{}`{}", value.get_name(), help.unwrap_or_default())
        })
        .collect();
    if !values.is_empty() && !arg.is_hide_possible_values_set() && !is_switch(arg) {
        let _ = write!(text, " One of {}.", values.join(", "));
    }
    text
}

/// Paragraphs in one line, each with the full stop of a sentence.
fn sentences(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let words: Vec<_> = paragraph.split_whitespace().collect();
        let sentence = words.join(" ").replace('|', "\\|").replace('<', "&lt;");
        let ended = sentence.ends_with(['.', ':', '?']);
        format!("{sentence}{}", if ended { "" } else { "." })
    });
    paragraphs.collect::<Vec<_>>().join(" ")
}

fn is_switch(arg: &Arg) -> bool {
    !arg.get_action().takes_values() || arg.get_id() == "allow_private_destinations"
}

fn default_of(arg: &Arg) -> String {
    let values: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect();
    match values.as_slice() {
        [] => "–".to_owned(),
        values => format!("`{}`", values.join(",")),
    }
}

fn settings(text: &mut String, command: &Command) {
    for arg in setting_args::settings(command) {
        let (name, default) = (arg.get_id(), default_of(arg));
        let _ = writeln!(text, "| `{name}` | {default} | {} |", help_of(arg));
    }
}

/// Spelling of an argument on the command line.
fn spelling(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default().join(" ");
    match arg.get_long() {
        Some(long) if is_switch(arg) => format!("--{long}"),
        Some(long) => format!("--{long} {value}"),
        None => format!("[{value}]"),
    }
}

fn commands(text: &mut String, path: &str, command: &Command) {
    for inner in command
        .get_subcommands()
        .filter(|inner| !inner.is_hide_set())
    {
        let path = format!("{path} {}", inner.get_name());
        let about = inner.get_long_about().or_else(|| inner.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "\n### `{path}`\n\n{}", sentences(&about));
        let own: Vec<_> = inner
            .get_arguments()
            .filter(|arg| !arg.is_global_set() && !arg.is_hide_set())
            .collect();
        if !own.is_empty() {
            text.push_str("\n| Option | Default | Meaning |\n|---|---|---|\n");
        }
        for arg in own {
            let (option, default) = (spelling(arg), default_of(arg));
            let _ = writeln!(text, "| `{option}` | {default} | {} |", help_of(arg));
        }
        commands(text, &path, inner);
    }
}

fn reference() -> String {
    let command = command();
    let mut text = HEAD.to_owned();
    settings(&mut text, &command);
    text.push_str(COMMANDS);
    commands(&mut text, "millrace", &command);
    text
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("REFERENCE.md");
    let expected = reference();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "UPDATE=1 cargo test -p millrace the_reference_is_current"
    );
}
