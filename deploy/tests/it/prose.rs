//! Rules of CONTRIBUTING.md about the language of comments and documents.

use crate::tidy::{assert_none, files};

/// Columns of a line of prose.
const COLUMNS_MAX: usize = 100;
/// First doc lines of a hundred that may begin with a pronoun.
const PRONOUN_PERCENT_MAX: usize = 1;
/// Beginnings that leave the noun to the reader's guess.
const PRONOUNS: [&str; 17] = [
    "What", "Who", "Whose", "Whom", "Whether", "Of", "The same", "Those", "That", "These", "They",
    "Their", "It", "Its", "As", "So", "Nothing",
];

/// Documents that the program writes.
const GENERATED: [&str; 3] = [
    "admin/destinations.md",
    "benches/RESULTS.md",
    "deploy/REFERENCE.md",
];

/// First lines of the blocks of doc comments in a file.
fn first_doc_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut before = "";
    for line in text.lines().map(str::trim_start) {
        let marker = ["//!", "///"]
            .into_iter()
            .find(|marker| line.starts_with(marker) && !line.starts_with("////"))
            .unwrap_or_default();
        if !marker.is_empty() && marker != before {
            lines.push(line[marker.len()..].trim_start());
        }
        before = marker;
    }
    lines
}

fn begins_with_a_pronoun(line: &str) -> bool {
    PRONOUNS.iter().any(|word| {
        let rest = line.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    })
}

#[test]
fn first_doc_lines_are_noun_or_verb_phrases() {
    let sources = files(".rs");
    let lines: Vec<_> = sources
        .iter()
        .flat_map(|(name, text)| {
            first_doc_lines(text)
                .into_iter()
                .map(move |line| (name, line))
        })
        .collect();
    let offenders: Vec<_> = lines
        .iter()
        .filter(|(_, line)| begins_with_a_pronoun(line))
        .map(|(name, line)| format!("{name}: {line}"))
        .collect();
    assert!(
        offenders.len() * 100 <= lines.len() * PRONOUN_PERCENT_MAX,
        "{} of {} first doc lines begin with {PRONOUNS:?}:\n  {}",
        offenders.len(),
        lines.len(),
        offenders.join("\n  ")
    );
}

fn is_wide(line: &str) -> bool {
    line.chars().count() > COLUMNS_MAX && !line.contains("http")
}

#[test]
fn lines_of_comments_end_within_100_columns() {
    let offenders: Vec<_> = files(".rs")
        .into_iter()
        .flat_map(|(name, text)| {
            let lines = text.lines().enumerate().filter(|(_, line)| {
                line.trim_start().starts_with("//") && is_wide(line) && !line.contains('|')
            });
            lines
                .map(|(number, _)| format!("{name}:{}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("wrap these comments", &offenders);
}

/// Returns true for a comment of a setup file that is too wide; commands and samples, which are
/// indented, may be.
fn is_wide_comment(line: &str) -> bool {
    let comment = line.trim_start().strip_prefix('#');
    comment.is_some_and(|text| is_wide(line) && !text.starts_with("   "))
}

#[test]
fn comments_of_setup_files_end_within_100_columns() {
    let suffixes = [
        ".toml", ".yml", ".yaml", ".cfg", ".service", ".sh", ".py", "Makefile",
    ];
    let offenders: Vec<_> = suffixes
        .into_iter()
        .flat_map(files)
        .filter(|(name, _)| !name.contains("fixtures/"))
        .flat_map(|(name, text)| {
            let lines = text.lines().enumerate();
            let lines = lines.filter(|(_, line)| is_wide_comment(line));
            lines
                .map(|(number, _)| format!("{name}:{}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("wrap these comments", &offenders);
    let word = "a".repeat(COLUMNS_MAX);
    let table = [
        (format!("# {word}"), true),
        (format!("    # {word}"), true),
        (format!("#   {word}"), false),
        (format!("# http://{word}"), false),
        (format!("{word} # a"), false),
        ("# a".to_owned(), false),
    ];
    for (line, expected) in table {
        assert_eq!(is_wide_comment(&line), expected, "{line}");
    }
}

/// Lines of paragraphs and lists; tables, code and headings may be longer.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            is_code = !is_code;
        }
        let is_other = ["```", "|", "#", "<", "    "]
            .iter()
            .any(|start| trimmed.starts_with(start) || line.starts_with("    "));
        if !is_code && !is_other {
            lines.push((number, line));
        }
    }
    lines
}

#[test]
fn lines_of_documents_end_within_100_columns() {
    let offenders: Vec<_> = files(".md")
        .into_iter()
        .filter(|(name, _)| !name.contains("fixtures/") && !GENERATED.contains(&name.as_str()))
        .flat_map(|(name, text)| {
            let lines = prose(&text).into_iter().filter(|(_, line)| is_wide(line));
            lines
                .map(|(number, _)| format!("{name}:{}", number + 1))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_none("wrap these paragraphs", &offenders);
}

#[test]
fn modules_with_parts_are_folders_with_a_mod_file() {
    let names: Vec<_> = files(".rs").into_iter().map(|(name, _)| name).collect();
    let offenders: Vec<_> = names
        .iter()
        .filter(|name| {
            let folder = format!("{}/", name.trim_end_matches(".rs"));
            names.iter().any(|other| other.starts_with(&folder))
        })
        .cloned()
        .collect();
    assert_none("move these to mod.rs in their folder", &offenders);
}

/// Lines that a document may have, to be a map and not a book.
#[test]
fn the_documents_that_people_read_first_stay_short() {
    let table = [("README.md", 180), ("ARCHITECTURE.md", 250)];
    for (file, lines_max) in table {
        let (_, text) = files(file)
            .into_iter()
            .find(|(name, _)| name == file)
            .unwrap();
        assert!(text.lines().count() <= lines_max, "{file}");
    }
    let long: Vec<_> = files(".md")
        .into_iter()
        .filter(|(name, text)| name.starts_with("deploy/decisions/0") && text.lines().count() > 40)
        .map(|(name, _)| name)
        .collect();
    assert_none("decisions of more than 40 lines", &long);
}
