//! The rules of CONTRIBUTING.md that a program can check.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Lines of a source file, its tests not counted.
const FILE_LINES_MAX: usize = 400;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// The files that git tracks or would track, relative to the root.
pub fn files(suffix: &str) -> Vec<(String, String)> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let read = |name: &str| {
        Some((
            name.to_owned(),
            std::fs::read_to_string(root().join(name)).ok()?,
        ))
    };
    names
        .lines()
        .filter(|name| name.ends_with(suffix))
        .filter_map(read)
        .collect()
}

pub fn assert_none(rule: &str, offenders: &[String]) {
    assert!(
        offenders.is_empty(),
        "{rule}:\n  {}",
        offenders.join("\n  ")
    );
}

#[test]
fn every_source_file_opens_with_what_it_is() {
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(_, text)| !text.trim_start().starts_with("//!"))
        .map(|(name, _)| name)
        .collect();
    assert_none("files without a module doc", &offenders);
}

#[test]
fn files_stay_small() {
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, _)| !name.contains("/tests/"))
        .map(|(name, text)| {
            let lines = text
                .lines()
                .take_while(|line| !line.starts_with("#[cfg(test)]"))
                .count();
            (name, lines)
        })
        .filter(|(_, lines)| *lines > FILE_LINES_MAX)
        .map(|(name, lines)| format!("{name}: {lines} lines"))
        .collect();
    assert_none("split these by concept", &offenders);
}

#[test]
fn nothing_is_unfinished_or_skipped() {
    // Put together, so that this file does not name them.
    let words =
        [["#[", "ignore"], ["TO", "DO"], ["FIX", "ME"], ["XX", "X"]].map(|word| word.concat());
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .flat_map(|(name, text)| {
            let words = &words;
            let found = |line: &str| words.iter().any(|word| line.contains(word.as_str()));
            let lines = text.lines().enumerate().filter(|(_, line)| found(line));
            lines
                .map(|(number, line)| format!("{name}:{}: {line}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("finish these", &offenders);
}

#[test]
fn no_check_goes_nowhere() {
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .flat_map(|(name, text)| {
            let bare =
                |line: &str| line.trim_start().starts_with("matches!(") && line.ends_with(';');
            let lines = text.lines().enumerate().filter(|(_, line)| bare(line));
            lines
                .map(|(number, _)| format!("{name}:{}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("`matches!` without `assert!` asserts nothing", &offenders);
}

/// Nouns that messages count.
const COUNTED: [&str; 19] = [
    "rows",
    "events",
    "records",
    "batches",
    "files",
    "requests",
    "exports",
    "projects",
    "parts",
    "counts",
    "names",
    "keys",
    "nodes",
    "runs",
    "organizations",
    "members",
    "fields",
    "columns",
    "groups",
];

/// Returns true if a line writes a number before a plural.
fn has_count(line: &str) -> bool {
    let mut ends = line.match_indices("} ");
    ends.any(|(end, _)| {
        let (before, number) = line[..end].rsplit_once('{').unwrap_or_default();
        let text = &line[end + 2..];
        let word = text.split(|letter: char| !letter.is_alphabetic()).next();
        let word = word.unwrap_or_default();
        let rest = &text[word.len()..];
        // `3/4 parts` and `3 of 4 parts` are shares, `5 events/s` is a rate.
        let is_share = before.ends_with('/') || before.ends_with(" of ");
        let is_rate = ["/", " per ", " a minute"]
            .iter()
            .any(|start| rest.starts_with(start));
        let is_limit = number.ends_with("_MAX") || number.ends_with("_max");
        COUNTED.contains(&word) && !is_share && !is_rate && !is_limit
    })
}

#[test]
fn counts_before_plurals_are_found() {
    let table = [
        ("{} rows", true),
        ("{count} fields, the header", true),
        ("{} rowsets", false),
        ("{left} of {} rows", false),
        ("{left}/{} rows", false),
        ("{} events a minute", false),
        ("at most {FILES_MAX} files", false),
    ];
    for (line, expected) in table {
        assert_eq!(has_count(line), expected, "{line}");
    }
}

/// `1 rows` is nobody's English: `counted` writes numbers with what they count.
#[test]
fn counts_are_spelled_in_one_place() {
    // The suite's numbers are constants of its cases; of tests and fuzzers only developers read.
    let others = [
        "load-tests/src/suite/",
        "benches/",
        "ingest/fuzz/",
        "/examples/",
        "/tests/",
        "/tests.rs",
    ];
    // The limit of a user's keys is above one.
    let known = ["storage/catalog/src/error.rs"];
    let is_asked =
        |name: &str| !known.contains(&name) && !others.iter().any(|part| name.contains(part));
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, _)| is_asked(name))
        .flat_map(|(name, text)| {
            let lines = text
                .lines()
                .filter(|line| line.contains('"') && has_count(line));
            lines
                .map(|line| format!("{name}: {}", line.trim()))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("write these with `counted`", &offenders);
}

/// Finds lines of the log on failures that are tried again, and would be logged at each try.
fn unlimited_logs(text: &str) -> Vec<usize> {
    let lines: Vec<_> = text.lines().collect();
    let is_unlimited = |number: &usize| {
        let line = lines[*number];
        let is_again = ["trying again", "asking again"].map(|words| line.contains(words));
        if !is_again.contains(&true) || line.trim_start().starts_with("//") {
            return false;
        }
        // Such tries are rare.
        if line.contains("trying again later") || line.contains("in an hour") {
            return false;
        }
        let before = &lines[number.saturating_sub(8)..=*number];
        let is_log = |line: &&str| ["warn!(", "error!("].iter().any(|it| line.contains(it));
        let is_limit = |line: &&str| ["is_due(", "is_logged("].iter().any(|it| line.contains(it));
        before.iter().any(is_log) && !before.iter().any(is_limit)
    };
    (0..lines.len()).filter(is_unlimited).collect()
}

#[test]
fn failures_that_are_tried_again_are_logged_rarely() {
    // Shipping has pauses that grow, and logs by them.
    let folders = [
        "admin/exports/src/engine/",
        "admin/persons/src/",
        "deploy/src/",
    ];
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, _)| folders.iter().any(|folder| name.starts_with(folder)))
        .flat_map(|(name, text)| {
            let lines = unlimited_logs(&text).into_iter();
            lines
                .map(|number| format!("{name}:{}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("log these by `RareLog`", &offenders);
    let table = [
        ("tracing::warn!(%error, \"away; trying again\");", 1),
        (
            "if log.is_due(&error, now) {\ntracing::warn!(\"away; trying again\");",
            0,
        ),
        ("tracing::warn!(%error, \"away; trying again later\");", 0),
        ("tracing::debug!(%error, \"away; asking again\");", 0),
    ];
    for (text, count) in table {
        assert_eq!(unlimited_logs(text).len(), count, "{text}");
    }
}

/// Tests read their settings by `number_from_env` of `millrace_rows::testing`.
#[test]
fn the_environment_of_tests_is_read_in_one_place() {
    // Put together, so that this file does not name it.
    let reader = ["env::", "var("].concat();
    let known = [
        "storage/rows/src/testing/setting.rs",
        // It knows no other crate.
        "storage/log/tests/it/model.rs",
        // Texts, which its own process is told.
        "storage/embedded/src/testing/mod.rs",
        "storage/embedded/src/testing/child.rs",
    ];
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, text)| text.contains(&reader) && !known.contains(&name.as_str()))
        .map(|(name, _)| name)
        .collect();
    assert_none("read these by `number_from_env`", &offenders);
}

#[test]
fn unsafe_code_is_where_it_must_be_and_nowhere_else() {
    // The engine's C interface; and what takes a processor feature that is asked for at run time.
    let crates = ["storage/embedded/", "ingest/parse/"];
    let roots = files("src/lib.rs").into_iter().chain(files("src/main.rs"));
    let offenders: Vec<_> = roots
        .filter(|(name, text)| {
            let lint = if crates.iter().any(|it| name.starts_with(it)) {
                "#![deny(unsafe_code)]"
            } else {
                "#![forbid(unsafe_code)]"
            };
            !text.contains(lint)
        })
        .map(|(name, _)| name)
        .collect();
    assert_none("crate roots that let unsafe code in", &offenders);
    let places = ["storage/embedded/src/ffi.rs", "ingest/parse/src/index/"];
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, text)| {
            text.contains("unsafe {") && !places.iter().any(|place| name.starts_with(place))
        })
        .map(|(name, _)| name)
        .filter(|name| name != "deploy/tests/it/tidy.rs")
        .collect();
    assert_none("files with unsafe code", &offenders);
}

/// serde_json's reader of a `Value` overflows the stack on some texts; see `bounded_json`. Types
/// with such a field in another file are not seen here.
#[test]
fn json_from_outside_is_read_within_bounds() {
    let folders = ["benches/", "load-tests/", "ingest/fuzz/"];
    let is_test = |name: &str| {
        [
            "/tests/",
            "/tests.rs",
            "/benches/",
            "/examples/",
            "/testing/",
        ]
        .iter()
        .any(|part| name.contains(part))
    };
    // They read other types, and use `Value` to write.
    let known = [
        "ingest/import/src/rules/apply.rs",
        "ingest/import/src/rules/cast.rs",
        "ingest/import/src/rules/object.rs",
        "storage/catalog/src/bounded_json.rs",
    ];
    let reads = ["json::from_str", "json::from_slice", "json::from_reader"];
    let reads = [&reads[..], &["json::Deserializer::from_", ".json::<"]].concat();
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .filter(|(name, _)| {
            !folders.iter().any(|folder| name.starts_with(folder)) && !is_test(name)
        })
        .filter(|(name, text)| {
            let text = text.split("\nmod tests {").next().unwrap();
            let is_read = reads.iter().any(|read| text.contains(read));
            is_read && has_values(text) && !known.contains(&name.as_str())
        })
        .map(|(name, _)| name)
        .collect();
    assert_none("read a `Value` with `bounded_json::parse`", &offenders);
}

/// Returns true if a source file names serde_json's type of any value, or the database's.
fn has_values(text: &str) -> bool {
    let is_type = |word: &str| ["Value", "Map", "Json"].contains(&word);
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    ["serde_json::", "prelude::"].iter().any(|library| {
        let mut paths = text.split(library).skip(1);
        paths.any(|path| match path.strip_prefix('{') {
            Some(list) => {
                let list = list.split(';').next().unwrap_or_default();
                list.split(|letter: char| !is_part(letter)).any(is_type)
            }
            None => is_type(
                path.split(|letter: char| !is_part(letter))
                    .next()
                    .unwrap_or_default(),
            ),
        })
    })
}

#[test]
fn files_that_name_values_are_known() {
    let table = [
        ("use serde_json::Value;", true),
        ("use serde_json::{Map, json};", true),
        ("use serde_json::{\n    json, Value,\n};", true),
        ("fn a(it: &serde_json::Value) {}", true),
        ("use sea_orm::prelude::{Json, Uuid};", true),
        ("use serde_json::value::RawValue;", false),
        ("use serde_json::{json, to_string};", false),
        ("type Value = ();", false),
    ];
    for (text, expected) in table {
        assert_eq!(has_values(text), expected, "{text}");
    }
}

#[test]
fn nothing_names_a_machine_or_a_registry() {
    let home = std::path::absolute(root()).unwrap();
    let needles = [
        format!("{}/", home.display()),
        ["/ro", "ot/"].concat(),
        ["crates", ".io"].concat(),
        ["registry.npm", "js.org"].concat(),
        ["pypi", ".org"].concat(),
    ];
    let suffixes = [
        ".rs", ".toml", ".md", ".json", ".sh", ".py", ".yml", "Makefile",
    ];
    let offenders: Vec<_> = suffixes
        .into_iter()
        .flat_map(files)
        .filter(|(name, _)| !name.contains("fixtures/"))
        .filter_map(|(name, text)| {
            let needle = needles
                .iter()
                .find(|needle| text.contains(needle.as_str()))?;
            Some(format!("{name} names {needle}"))
        })
        .collect();
    assert_none("take these out", &offenders);
}

#[test]
fn the_top_level_holds_what_a_newcomer_expects() {
    let expected = [
        ".cargo",
        ".ci",
        ".editorconfig",
        ".gitignore",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE",
        "Makefile",
        "PROMISES.md",
        "README.md",
        "SECURITY.md",
        "admin",
        "benches",
        "clippy.toml",
        "deny.toml",
        "deploy",
        "ingest",
        "load-tests",
        "rustfmt.toml",
        "storage",
    ];
    let listed = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    let mut top: Vec<_> = names
        .lines()
        .filter_map(|name| name.split('/').next())
        .collect();
    top.sort_unstable();
    top.dedup();
    let offenders: Vec<_> = top
        .iter()
        .filter(|name| !expected.contains(name))
        .map(|name| (*name).to_owned())
        .collect();
    assert_none("unexpected at the top level", &offenders);
}
