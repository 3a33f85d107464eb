//! Names of a window's files: `<prefix>/<start>-<end>[-<n>]<suffix>` and
//! `<prefix>/<start>-<end>_manifest.json`.

use crate::error::ExportError;
use crate::window::RunScope;
use millrace_catalog::ExportModel;
use uuid::Uuid;

/// Prefix of the name of a file that is being written, where such files have names.
pub(super) const TEMPORARY_PREFIX: &str = ".";
/// Suffix of the name of a file that is being written.
const TEMPORARY_SUFFIX: &str = ".part";

/// Naming scheme of an export's files.
#[derive(Clone, Debug)]
pub(super) struct Naming {
    /// Template of the prefix, with placeholders in braces.
    pub(super) template: String,
    /// Suffix of files, such as `.jsonl.gz`.
    pub(super) suffix: String,
    /// True if files are numbered even if there is only one.
    pub(super) always_numbered: bool,
}

/// Names of one window's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WindowNames {
    /// Path before `<start>`: the prefix and a slash, or nothing.
    folder: String,
    /// Stem `<start>-<end>`.
    stem: String,
    suffix: String,
    is_numbered: bool,
}

impl Naming {
    /// Names for a run of this number of files.
    pub(super) fn of(&self, run: &RunScope, parts: u32) -> Result<WindowNames, ExportError> {
        let end = run.window.end.to_string();
        let start = run.window.start.map(|start| start.to_string());
        let start = start.unwrap_or_else(|| "beginning".to_owned());
        let prefix = expanded(&self.template, run, &start, &end);
        Ok(WindowNames {
            folder: folder(&prefix)?,
            stem: format!("{start}-{end}"),
            suffix: self.suffix.clone(),
            is_numbered: self.always_numbered || parts > 1,
        })
    }
}

impl WindowNames {
    /// Key of a file; files are counted from 0.
    pub(super) fn file(&self, part: usize) -> String {
        let Self {
            folder,
            stem,
            suffix,
            ..
        } = self;
        if self.is_numbered {
            format!("{folder}{stem}-{part}{suffix}")
        } else {
            format!("{folder}{stem}{suffix}")
        }
    }

    /// Key of the manifest.
    pub(super) fn manifest(&self) -> String {
        format!("{}{}_manifest.json", self.folder, self.stem)
    }

    /// Prefix of the keys of all files of this window.
    pub(super) fn key_prefix(&self) -> String {
        format!("{}{}", self.folder, self.stem)
    }

    /// Returns true if another try of this export could have given this key to a file, or as a
    /// temporary name to a file or the manifest.
    pub(super) fn is_file(&self, key: &str) -> bool {
        let Some(name) = key.strip_prefix(self.folder.as_str()) else {
            return false;
        };
        let is_own = |name| self.rest(name) == Some(self.suffix.as_str());
        match permanent(name) {
            Some(name) => is_own(name) || format!("{}{name}", self.folder) == self.manifest(),
            None => is_own(name),
        }
    }

    /// Returns true if a key could be that of a file of this window in any format.
    pub(super) fn is_of_window(&self, key: &str) -> bool {
        let name = key.strip_prefix(self.folder.as_str());
        let rest = name.and_then(|name| self.rest(name));
        let is_suffix = |rest: &str| {
            rest.starts_with('.') && rest.bytes().all(|b| b == b'.' || b.is_ascii_alphanumeric())
        };
        rest.is_some_and(is_suffix)
    }

    /// Part of a name behind `<start>-<end>[-<n>]`.
    fn rest<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = name.strip_prefix(self.stem.as_str())?;
        let Some(numbered) = rest.strip_prefix('-') else {
            return Some(rest);
        };
        let suffix = numbered.trim_start_matches(|c: char| c.is_ascii_digit());
        (suffix.len() < numbered.len()).then_some(suffix)
    }
}

/// Temporary name of a file until it is complete. It contains the id of the attempt: a slow process
/// that has lost the run writes to another file.
pub(super) fn temporary(name: &str, attempt: Uuid) -> String {
    let attempt = attempt.simple();
    format!("{TEMPORARY_PREFIX}{name}.{attempt}{TEMPORARY_SUFFIX}")
}

fn permanent(name: &str) -> Option<&str> {
    let name = name.strip_prefix(TEMPORARY_PREFIX)?;
    let (name, attempt) = name.strip_suffix(TEMPORARY_SUFFIX)?.rsplit_once('.')?;
    Uuid::try_parse(attempt).is_ok().then_some(name)
}

/// Folder that a prefix names: with a slash at its end, or empty.
pub(super) fn folder(prefix: &str) -> Result<String, ExportError> {
    let parts = prefix.split('/').filter(|part| !part.is_empty());
    let mut folder = String::with_capacity(prefix.len() + 1);
    for part in parts {
        if matches!(part, "." | "..") || part.contains(char::is_control) {
            let message = "The prefix has a part that no file can be put below (\".\", \"..\" or \
                           a control character). Change it.";
            return Err(ExportError::permanent(message));
        }
        folder.push_str(part);
        folder.push('/');
    }
    Ok(folder)
}

fn expanded(template: &str, run: &RunScope, start: &str, end: &str) -> String {
    let at = run.window.end.to_datetime();
    let table = match run.model {
        ExportModel::Events => "events",
        ExportModel::Persons => "persons",
    };
    let two = |number: i8| format!("{number:02}");
    let values = [
        ("{year}", format!("{:04}", at.year())),
        ("{month}", two(at.month())),
        ("{day}", two(at.day())),
        ("{hour}", two(at.hour())),
        ("{minute}", two(at.minute())),
        ("{second}", two(at.second())),
        ("{table}", table.to_owned()),
        ("{data_interval_start}", start.to_owned()),
        ("{data_interval_end}", end.to_owned()),
    ];
    // No value has braces, so none is replaced again.
    let replace = |text: String, (name, value): (&str, String)| text.replace(name, &value);
    values.into_iter().fold(template.to_owned(), replace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{Window, WindowBy};
    use millrace_catalog::{ProjectId, UtcTime};

    /// 2026-11-20T14:00:00Z.
    const START: i64 = 1_795_183_200_000_000;
    const HOUR: i64 = 3_600_000_000;

    fn run(start: Option<i64>) -> RunScope {
        RunScope {
            run_id: Uuid::nil(),
            export_id: Uuid::nil(),
            project_id: ProjectId(1),
            model: ExportModel::Events,
            window: Window {
                start: start.map(UtcTime),
                end: UtcTime(START + HOUR),
                by: WindowBy::Arrival,
            },
        }
    }

    fn naming(template: &str, always_numbered: bool) -> Naming {
        Naming {
            template: template.to_owned(),
            suffix: ".jsonl.gz".to_owned(),
            always_numbered,
        }
    }

    #[test]
    fn names_follow_from_window_and_template() {
        let stem = "2026-11-20T14:00:00Z-2026-11-20T15:00:00Z";
        let table = [
            ("", false, 1, format!("{stem}.jsonl.gz")),
            ("a/b", false, 1, format!("a/b/{stem}.jsonl.gz")),
            ("/a//b/", false, 1, format!("a/b/{stem}.jsonl.gz")),
            ("a", true, 1, format!("a/{stem}-0.jsonl.gz")),
            ("a", false, 2, format!("a/{stem}-0.jsonl.gz")),
            (
                "{table}/{year}/{month}/{day}/{hour}-{minute}-{second}",
                false,
                1,
                format!("events/2026/11/20/15-00-00/{stem}.jsonl.gz"),
            ),
            (
                "{data_interval_start}/{data_interval_end}/{other}",
                false,
                1,
                format!("2026-11-20T14:00:00Z/2026-11-20T15:00:00Z/{{other}}/{stem}.jsonl.gz"),
            ),
        ];
        for (template, numbered, parts, expected) in table {
            let names = naming(template, numbered)
                .of(&run(Some(START)), parts)
                .unwrap();
            assert_eq!(names.file(0), expected, "{template}");
        }
        let names = naming("a", false).of(&run(None), 1).unwrap();
        assert_eq!(
            names.manifest(),
            "a/beginning-2026-11-20T15:00:00Z_manifest.json"
        );
        for template in ["..", "a/../b", "a/.", "a/\nb"] {
            naming(template, false).of(&run(None), 1).unwrap_err();
        }
    }

    #[test]
    fn own_files_are_distinguished_from_others() {
        let names = naming("a", false).of(&run(Some(START)), 1).unwrap();
        let stem = "2026-11-20T14:00:00Z-2026-11-20T15:00:00Z";
        let own = |name: &str| format!("a/{}", temporary(name, Uuid::new_v4()));
        let table = [
            (format!("a/{stem}.jsonl.gz"), true, true),
            (format!("a/{stem}-0.jsonl.gz"), true, true),
            (format!("a/{stem}-117.jsonl.gz"), true, true),
            (own(&format!("{stem}-1.jsonl.gz")), true, false),
            (own(&format!("{stem}_manifest.json")), true, false),
            (own(&format!("{stem}.csv")), false, false),
            (format!("a/.{stem}-1.jsonl.gz.part"), false, false),
            (format!("a/.{stem}-1.jsonl.gz.x.part"), false, false),
            (format!("a/{stem}.parquet"), false, true),
            (format!("a/{stem}-3.csv"), false, true),
            (format!("a/{stem}_manifest.json"), false, false),
            (format!("a/{stem}-.jsonl.gz"), false, false),
            (format!("a/{stem}-1-2.jsonl.gz"), false, false),
            (format!("a/{stem}-x.jsonl.gz"), false, false),
            (format!("a/{stem}.jsonl.gz.bak/x"), false, false),
            (format!("a/{stem}"), false, false),
            (format!("b/{stem}.jsonl.gz"), false, false),
            (format!("a/b/{stem}.jsonl.gz"), false, false),
            (
                "a/2026-11-20T13:00:00Z-2026-11-20T14:00:00Z.jsonl.gz".to_owned(),
                false,
                false,
            ),
        ];
        for (key, is_file, is_of_window) in table {
            assert_eq!(names.is_file(&key), is_file, "{key}");
            assert_eq!(names.is_of_window(&key), is_of_window, "{key}");
        }
    }
}
