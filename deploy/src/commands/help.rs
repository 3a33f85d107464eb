//! `millrace help`: help of a command, and the settings of a server, which the help of commands
//! leaves out.

use crate::output;
use crate::setting_args;
use anyhow::{Context, bail};
use clap::{Arg, Args, Command};

/// Topic that explains the settings.
const SETTINGS: &str = "settings";
/// Columns of a line of text.
const COLUMNS: usize = 96;
/// Indentation of a setting's text.
const INDENT: &str = "    ";
const HEAD: &str = "\
Each setting is a flag (--ingest-addr), an environment variable (MILLRACE_INGEST_ADDR) and a key
of millrace.toml (ingest_addr); the first of these that is present wins. `millrace config` prints
their values, and where each comes from.";

/// Topic of the help.
#[derive(Args, Clone, Debug)]
pub struct Help {
    /// Command, as in `keys create`; or `settings`, and parts of their names, as in
    /// `settings clickhouse`
    #[arg(value_name = "COMMAND")]
    words: Vec<String>,
}

/// Prints the help.
///
/// # Errors
/// When there is no such command or setting.
pub(super) fn run(program: Command, help: &Help) -> anyhow::Result<()> {
    let text = match help.words.as_slice() {
        [first, parts @ ..] if first == SETTINGS => settings(&program, parts)?,
        words => of_command(program, words)?,
    };
    output::print(text.trim_end());
    Ok(())
}

/// Help of a command, as its `--help` prints it.
fn of_command(program: Command, words: &[String]) -> anyhow::Result<String> {
    let mut command = program;
    command.build();
    for word in words {
        let inner = command.find_subcommand(word).cloned();
        command = inner.with_context(|| {
            format!("there is no command {word:?}; `millrace help` lists all, such as keys create")
        })?;
    }
    Ok(command.render_long_help().to_string())
}

/// Explains the settings whose names have all these parts.
fn settings(program: &Command, parts: &[String]) -> anyhow::Result<String> {
    let parts: Vec<String> = parts.iter().map(|part| name_of(part)).collect();
    let is_meant = |arg: &&Arg| {
        parts
            .iter()
            .all(|part| arg.get_id().as_str().contains(part))
    };
    let meant = setting_args::settings(program).filter(is_meant);
    let meant: Vec<String> = meant.map(explained).collect();
    if meant.is_empty() {
        bail!(
            "no setting has {} in its name; `millrace help settings` explains all, such as ingest_addr",
            parts.join(" and ")
        );
    }
    match parts.is_empty() {
        true => Ok(format!("{HEAD}\n\n{}", meant.join("\n"))),
        false => Ok(meant.join("\n")),
    }
}

/// Name of a setting that was written as its flag or variable.
fn name_of(text: &str) -> String {
    let name = text.trim_start_matches('-').replace('-', "_");
    let name = name.to_lowercase();
    name.strip_prefix("millrace_").unwrap_or(&name).to_owned()
}

/// Name, default and meaning of a setting.
fn explained(arg: &Arg) -> String {
    let value = arg.get_value_names().unwrap_or_default().join(" ");
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<_> = defaults
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    let default = match defaults.is_empty() {
        true => String::new(),
        false => format!(" (default: {})", defaults.join(",")),
    };
    let mut text = format!("{} = {value}{default}\n", arg.get_id());
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    for paragraph in help.split("\n\n") {
        text += &filled(paragraph, INDENT);
    }
    for value in arg.get_possible_values() {
        if let Some(help) = value.get_help() {
            text += &filled(&format!("- {}: {help}", value.get_name()), INDENT);
        }
    }
    text
}

/// Breaks a paragraph into lines with an indentation.
fn filled(text: &str, indent: &str) -> String {
    let (mut lines, mut line) = (String::new(), indent.to_owned());
    for word in text.split_whitespace() {
        let is_first = line.len() == indent.len();
        let is_full = line.chars().count() + 1 + word.chars().count() > COLUMNS;
        if is_full && !is_first {
            lines += &line;
            lines.push('\n');
            indent.clone_into(&mut line);
        } else if !is_first {
            line.push(' ');
        }
        line += word;
    }
    lines += &line;
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_settings_are_explained_all_or_by_parts_of_their_names() {
        let table = [
            ("", "ingest_addr = ADDR (default: 127.0.0.1:8000)", true),
            ("", "- disk: On disk", true),
            ("", "secret_key = KEY\n", true),
            ("clickhouse", "clickhouse_url = URL", true),
            ("clickhouse", "ingest_addr", false),
            ("--ingest-addr", "ingest_addr = ADDR", true),
            ("MILLRACE_INGEST_ADDR", "ingest_addr = ADDR", true),
            ("addr node", "node_addr = ADDR", true),
            ("addr node", "admin_addr = ADDR", false),
        ];
        for (parts, text, is_there) in table {
            let found = settings(&cli::command(), &words(parts)).unwrap();
            assert_eq!(found.contains(text), is_there, "{parts}: {found}");
            assert!(
                found.lines().all(|line| line.chars().count() <= 100),
                "{found}"
            );
        }
        let unknown = settings(&cli::command(), &words("colour"))
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("colour in its name"), "{unknown}");
    }

    #[test]
    fn every_setting_is_explained() {
        let all = settings(&cli::command(), &[]).unwrap();
        for arg in setting_args::settings(&cli::command()) {
            let line = format!("\n{} = ", arg.get_id());
            assert!(all.contains(&line), "{line}");
        }
    }

    #[test]
    fn the_help_of_a_command_is_that_of_its_flag() {
        let help = of_command(cli::command(), &words("keys create")).unwrap();
        assert!(help.contains("Usage: millrace keys create"), "{help}");
        let unknown = of_command(cli::command(), &words("keys colour"))
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("\"colour\""), "{unknown}");
    }

    #[test]
    fn a_paragraph_is_broken_into_lines() {
        let word = "x".repeat(40);
        let text = format!("{word} {word}\n{word}");
        assert_eq!(filled(&text, "  "), format!("  {word} {word}\n  {word}\n"));
        let long = "y".repeat(200);
        assert_eq!(filled(&long, "  "), format!("  {long}\n"));
    }
}
