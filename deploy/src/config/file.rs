//! Layers of settings: flags over variables over the file over defaults.
//!
//! clap reads flags and variables itself. The file joins in as the arguments' defaults, so that
//! one parser checks all of them. All bad keys are reported at once.

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeMap;
use std::error::Error as _;
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
    /// Settings of the file.
    file_keys: BTreeMap<String, FileKey>,
}

/// Key of the file.
struct FileKey {
    /// Path as TOML has it, by which messages name it: `clickhouse.memory`.
    path: String,
    /// Value as text.
    value: String,
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
    for (id, key) in &file_keys {
        problems.extend(problem_of(&command, id, key));
    }
    if !problems.is_empty() {
        return Err(FileError::Invalid(problems));
    }
    let with_file = file_keys.iter().fold(command, |command, (id, key)| {
        let value = key.value.clone();
        command.mut_arg(id, |arg| arg.default_value(value))
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

/// Reads the keys of the file, by the settings that they are. A table's name is the prefix of its
/// keys, so that `[clickhouse]` with `memory` is `clickhouse_memory`.
fn read(path: &Path) -> Result<BTreeMap<String, FileKey>, FileError> {
    let unreadable = |reason: String| FileError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| unreadable(error.to_string()))?;
    let mut keys = BTreeMap::new();
    for (name, value) in table {
        flatten(name.clone(), name, value, &mut keys);
    }
    Ok(keys)
}

fn flatten(id: String, path: String, value: toml::Value, keys: &mut BTreeMap<String, FileKey>) {
    let value = match value {
        toml::Value::Table(inner) => {
            for (name, value) in inner {
                flatten(
                    format!("{id}_{name}"),
                    format!("{path}.{name}"),
                    value,
                    keys,
                );
            }
            return;
        }
        toml::Value::Array(items) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            items.join(",")
        }
        other => plain(&other),
    };
    keys.insert(id, FileKey { path, value });
}

fn plain(value: &toml::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Checks one key of the file; returns the problem with it, if any.
fn problem_of(command: &Command, id: &str, key: &FileKey) -> Option<String> {
    let FileKey { path, value } = key;
    if !is_setting(command, id) {
        let name = path.rsplit('.').next().filter(|name| name != path);
        let advice = match name.filter(|name| is_setting(command, name)) {
            Some(name) => format!("write `{name}` before the first table"),
            None => "`millrace config` lists all keys".to_owned(),
        };
        return Some(format!("the configuration has no key `{path}`; {advice}"));
    }
    let flag = format!("--{}={value}", id.replace('_', "-"));
    let error = command
        .clone()
        .try_get_matches_from(["millrace", &flag])
        .err()?;
    // clap's own text names the flag, which nobody wrote.
    let advice = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(reason), _) => reason.to_string(),
        (None, Some(ContextValue::Strings(valid))) => format!("give one of {}", valid.join(", ")),
        (None, _) => "it cannot be used".to_owned(),
    };
    Some(format!(
        "key `{path}` of the configuration: invalid value '{value}': {advice}"
    ))
}

/// Returns true for the settings that the file may have: all but its own path.
fn is_setting(command: &Command, id: &str) -> bool {
    let mut arguments = command.get_arguments();
    id != "config" && arguments.any(|arg| arg.get_id() == id && arg.get_env().is_some())
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
