//! Plan of an import: the mapping file, read and checked.

use crate::rules::{EventRules, PersonRules, PropertyRules, Rules, TimeRules};
use anyhow::{Context, bail};
use millrace_sources::{Format, Options};
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// Most bytes of a mapping file: more names than anybody writes.
const MAPPING_BYTES_MAX: u64 = 1 << 20;

/// Content of a mapping file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MappingFile {
    /// Format of the files, such as `mixpanel`; without one it is detected for each file.
    format: Option<String>,
    /// Name of the project at the source: two projects may use the same ids.
    project: String,
    /// Options of the format.
    source: Options,
    events: EventRules,
    properties: PropertyRules,
    persons: PersonRules,
    time: TimeRules,
}

/// Plan of an import: format, options and rules.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Format of the files; without one it is detected for each file.
    pub format: Option<Format>,
    /// Name of the project at the source.
    pub project: String,
    /// Options of the format.
    pub options: Options,
    /// Rules for the events.
    pub rules: Rules,
    /// True if the files are rejects of an earlier import.
    pub is_replay: bool,
    /// Digest of the plan, so that an import is not continued with another one.
    pub digest: String,
}

impl Plan {
    /// Reads a mapping file, if a path is given. `format` overrides the file's.
    ///
    /// # Errors
    /// The file cannot be read, or its content is invalid.
    pub fn read(path: Option<&Path>, format: Option<&str>) -> anyhow::Result<Self> {
        let text = match path {
            Some(path) => {
                mapping_in(path).with_context(|| format!("cannot read {}", path.display()))?
            }
            None => String::new(),
        };
        let plan = Self::parse(&text, format);
        match path {
            Some(path) => plan.with_context(|| format!("{} cannot be used", path.display())),
            None => plan,
        }
    }

    fn parse(text: &str, format: Option<&str>) -> anyhow::Result<Self> {
        let file: MappingFile = toml::from_str(text)?;
        let name = format.map(str::to_owned).or(file.format);
        let format = name.as_deref().map(format_of).transpose()?;
        let plan = Self {
            format,
            project: file.project,
            options: file.source,
            rules: Rules {
                events: file.events,
                properties: file.properties,
                persons: file.persons,
                time: file.time,
            },
            is_replay: false,
            digest: format!("{:032x}", xxh3_128(format!("{name:?}\n{text}").as_bytes())),
        };
        let formats = match plan.format {
            Some(format) => vec![format],
            None => Format::ALL.to_vec(),
        };
        for format in formats {
            format.mapping(&plan.options)?;
        }
        Ok(plan)
    }
}

/// Reads the text of a mapping file. Pipes and devices are refused, as they may never end.
fn mapping_in(path: &Path) -> anyhow::Result<String> {
    // Checked before it is opened: opening a pipe waits for a writer.
    if !std::fs::metadata(path)?.is_file() {
        bail!("it is not a file: write the mapping into one, and name that");
    }
    let mut text = String::new();
    let file = File::open(path)?;
    file.take(MAPPING_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAPPING_BYTES_MAX {
        bail!("it is larger than 1 MiB: is it the file with the events?");
    }
    Ok(text)
}

fn format_of(name: &str) -> anyhow::Result<Format> {
    let Some(format) = Format::from_name(name) else {
        let all: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        bail!("there is no format {name}; there are {}", all.join(", "));
    };
    Ok(format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_file_sets_format_source_and_rules() {
        let text = "format = \"mixpanel\"\nproject = \"7\"\n[source]\ntime_zone = \"Europe/Vienna\"\n\
                    [events]\ndrop = [\"x\"]\n";
        let plan = Plan::parse(text, None).unwrap();
        assert_eq!(plan.format, Some(Format::Mixpanel));
        assert_eq!(plan.options.time_zone.as_deref(), Some("Europe/Vienna"));
        assert_eq!(plan.rules.events.drop, ["x"]);
        let other = Plan::parse(text, Some("captured")).unwrap();
        assert_eq!(other.format, Some(Format::Captured));
        assert_ne!(plan.digest, other.digest);
    }

    #[test]
    fn an_invalid_mapping_returns_its_reason() {
        let table = [
            ("format = \"excel\"", "there are captured, mixpanel"),
            ("[source]\ntime_zone = \"Mars\"", "Europe/Berlin"),
            ("[propertys]", "unknown field `propertys`"),
        ];
        for (text, needle) in table {
            let error = format!("{:#}", Plan::parse(text, None).unwrap_err());
            assert!(error.contains(needle), "{error}");
        }
    }

    #[test]
    fn a_mapping_that_is_no_file_or_is_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: u64| {
            let path = dir.path().join(name);
            std::fs::write(&path, "# ".to_owned() + &"x".repeat(bytes as usize - 2)).unwrap();
            path
        };
        let largest = file("largest.toml", MAPPING_BYTES_MAX);
        assert!(Plan::read(Some(&largest), None).is_ok());
        for (path, needle) in [
            ("/dev/zero".into(), "it is not a file"),
            (dir.path().to_owned(), "it is not a file"),
            (dir.path().join("nowhere"), "No such file"),
            (
                file("larger.toml", MAPPING_BYTES_MAX + 1),
                "larger than 1 MiB",
            ),
        ] {
            let error = format!("{:#}", Plan::read(Some(&path), None).unwrap_err());
            let begins = format!("cannot read {}", path.display());
            assert!(
                error.starts_with(&begins) && error.contains(needle),
                "{error}"
            );
        }
    }
}
