//! Layers of settings: flags over variables over the file over defaults.
//!
//! clap reads flags and variables itself. The file joins in as the arguments' defaults, so that
//! one parser checks all of them. All bad keys are reported at once.

use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Configuration file that is read by default.
const DEFAULT_FILE: &str = "millrace.toml";
/// Prefixes of variables that are not settings: tests use the first, Kubernetes sets the others for
/// a service named millrace.
const FOREIGN_VARIABLES: [&str; 3] = ["MILLRACE_TEST_", "MILLRACE_PORT", "MILLRACE_SERVICE_"];

/// Error in the settings.
#[derive(Debug, Error)]
pub enum FileError {
    /// Wrong flag or variable, or a request for help.
    #[error(transparent)]
    Command(#[from] clap::Error),
    /// File that cannot be read.
    #[error("cannot read the configuration {}: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system or the TOML parser.
        reason: String,
    },
    /// Keys or variables that do not exist or have bad values.
    #[error("{}", .0.join("\n"))]
    Invalid(Vec<String>),
}

/// Parsed command line, with the origin of each setting.
pub struct Layers {
    /// Values that clap merged from flags, variables, file and defaults.
    pub matches: ArgMatches,
    /// Configuration file that was read.
    pub file: Option<PathBuf>,
    /// Keys that the file sets.
    file_keys: BTreeMap<String, String>,
}

impl Layers {
    /// Origin of a setting's value, for people.
    #[must_use]
    pub fn source(&self, id: &str) -> String {
        match self.matches.value_source(id) {
            Some(ValueSource::CommandLine) => format!("flag --{}", id.replace('_', "-")),
            Some(ValueSource::EnvVariable) => format!("variable {}", variable(id)),
            Some(ValueSource::DefaultValue) if self.file_keys.contains_key(id) => {
                let name = self.file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
                format!("file {}", name.display())
            }
            _ => "default".to_owned(),
        }
    }
}

/// Reads all layers. `variables` are the names of the environment's variables.
///
/// # Errors
/// All problems at once.
pub fn load(
    command: Command,
    args: &[OsString],
    variables: impl Iterator<Item = String>,
) -> Result<Layers, FileError> {
    let matches = command.clone().try_get_matches_from(args)?;
    let mut problems = unknown_variables(&command, variables);
    let named = matches.get_one::<PathBuf>("config").cloned();
    let file = named.or_else(|| Some(PathBuf::from(DEFAULT_FILE)).filter(|path| path.exists()));
    let file_keys = match &file {
        Some(path) => read(path)?,
        None => BTreeMap::new(),
    };
    for (key, value) in &file_keys {
        problems.extend(problem_of(&command, key, value));
    }
    if !problems.is_empty() {
        return Err(FileError::Invalid(problems));
    }
    let with_file = file_keys.iter().fold(command, |command, (key, value)| {
        let value = value.clone();
        command.mut_arg(key, |arg| arg.default_value(value))
    });
    let matches = with_file.try_get_matches_from(args)?;
    Ok(Layers {
        matches,
        file,
        file_keys,
    })
}

fn variable(id: &str) -> String {
    if id == "libchdb" {
        "MILLRACE_LIBCHDB".to_owned()
    } else {
        format!("MILLRACE_{}", id.to_uppercase())
    }
}

/// Reads the keys of the file, with their values as text. A table's name is the prefix of its keys,
/// so that `[clickhouse]` with `memory` is `clickhouse_memory`.
fn read(path: &Path) -> Result<BTreeMap<String, String>, FileError> {
    let unreadable = |reason: String| FileError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| unreadable(error.to_string()))?;
    let mut keys = BTreeMap::new();
    flatten("", table, &mut keys);
    Ok(keys)
}

fn flatten(prefix: &str, table: toml::Table, keys: &mut BTreeMap<String, String>) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name
        } else {
            format!("{prefix}_{name}")
        };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, keys),
            toml::Value::String(text) => drop(keys.insert(key, text)),
            toml::Value::Array(items) => {
                let items: Vec<String> = items.iter().map(plain).collect();
                keys.insert(key, items.join(","));
            }
            other => drop(keys.insert(key, other.to_string())),
        }
    }
}

fn plain(value: &toml::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks one key of the file; returns the problem with it, if any.
fn problem_of(command: &Command, key: &str, value: &str) -> Option<String> {
    let known = command
        .get_arguments()
        .any(|arg| arg.get_id() == key && arg.get_long().is_some());
    if !known || key == "config" {
        return Some(format!(
            "the configuration has no key `{key}`; `millrace config` lists all keys"
        ));
    }
    let flag = format!("--{}={value}", key.replace('_', "-"));
    let error = command
        .clone()
        .try_get_matches_from(["millrace", &flag])
        .err()?;
    let reason = error.to_string();
    let reason = reason
        .lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ");
    Some(format!("key `{key}` of the configuration: {reason}"))
}

fn unknown_variables(command: &Command, variables: impl Iterator<Item = String>) -> Vec<String> {
    let known: Vec<_> = command
        .get_arguments()
        .filter_map(|arg| arg.get_env())
        .collect();
    variables
        .filter(|name| name.starts_with("MILLRACE_"))
        .filter(|name| {
            !FOREIGN_VARIABLES
                .iter()
                .any(|prefix| name.starts_with(prefix))
        })
        .filter(|name| !known.iter().any(|env| env.to_str() == Some(name)))
        .map(|name| format!("the variable {name} is not a setting; `millrace config` lists all"))
        .collect()
}
