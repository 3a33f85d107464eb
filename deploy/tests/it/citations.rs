//! Citations of tests in `PROMISES.md` and `deploy/THREATS.md`: each names a test that exists.
//!
//! A citation is a text in backticks in the last column of a table whose head there is `Test`:
//!
//! | Form | Meaning |
//! |---|---|
//! | `slow`, `keys::tests::lookups` | a module with tests, by the end of its path or by all of it |
//! | `limits::a_head_over_…`, `…_on_xfs` | tests whose names begin or end so |
//! | `x` in `storage/log`, in the catalog | only in that crate or folder; holds for all in front of it up to a semicolon |
//! | `make attack` | a target of the Makefile |
//! | `make bench-check`: `known/…` | cases with counted instructions, up to a semicolon |

use crate::tidy::{assert_none, files};
use std::collections::BTreeSet;

const DOCUMENTS: [&str; 2] = ["PROMISES.md", "deploy/THREATS.md"];
/// Macros that make tests of the names that they are given.
const MACROS: [&str; 3] = ["on_both!", "on_each!", "short_runs!"];
const CATALOG: &str = "storage/catalog";

/// Test in a source file.
struct Test {
    file: String,
    krate: String,
    /// Modules and name, without the crate's.
    path: Vec<String>,
}

/// Citation with the place that it is searched in.
#[derive(Debug, PartialEq)]
struct Citation {
    text: String,
    place: Option<String>,
}

/// Folders of all crates, the longest first.
fn crates() -> Vec<String> {
    let mut folders: Vec<_> = files("Cargo.toml")
        .into_iter()
        .filter_map(|(name, _)| Some(name.strip_suffix("/Cargo.toml")?.to_owned()))
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    folders
}

/// Modules that a file's path stands for.
fn modules(in_crate: &str) -> Option<Vec<String>> {
    let path = in_crate
        .strip_prefix("src/")
        .or_else(|| in_crate.strip_prefix("tests/"))?;
    let mut modules: Vec<_> = path.trim_end_matches(".rs").split('/').collect();
    modules.pop_if(|last| ["mod", "main", "lib"].contains(last));
    Some(modules.into_iter().map(str::to_owned).collect())
}

fn word_after<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = line
        .trim_start_matches("pub ")
        .trim_start_matches("async ")
        .strip_prefix(keyword)?;
    rest.split(|letter: char| !is_word(letter)).next()
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Paths of the tests of a file, within the file.
fn tests_of(text: &str) -> Vec<Vec<String>> {
    let (mut tests, mut open) = (Vec::new(), Vec::<(String, usize)>::new());
    let (mut is_test, mut is_macro) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        let mut add = |name: &str, open: &[(String, usize)]| {
            let modules = open.iter().map(|(name, _)| name.clone());
            tests.push(modules.chain([name.to_owned()]).collect());
        };
        let begins = MACROS.iter().find_map(|name| trimmed.split_once(name));
        let begins = begins.filter(|(path, _)| path.chars().all(|it| is_word(it) || it == ':'));
        let arguments = match begins {
            Some((_, arguments)) => Some(arguments),
            None => is_macro.then_some(trimmed),
        };
        if let Some(arguments) = arguments {
            let names = arguments.rsplit(']').next().unwrap();
            let names = names.split(|letter| !is_word(letter));
            names
                .filter(|name| !name.is_empty())
                .for_each(|name| add(name, &open));
            let ends = begins.is_none() && trimmed == "}";
            is_macro = !arguments.ends_with(';') && !ends;
        } else if trimmed == "}" && open.last().is_some_and(|(_, at)| *at == indent) {
            open.pop();
        } else if trimmed.ends_with('{')
            && let Some(module) = word_after(trimmed, "mod ")
        {
            open.push((module.to_owned(), indent));
        } else if trimmed.starts_with("#[") && trimmed.split('(').next().unwrap().contains("test") {
            is_test |= !trimmed.starts_with("#[cfg");
        } else if let Some(name) = word_after(trimmed, "fn ")
            && std::mem::take(&mut is_test)
        {
            add(name, &open);
        }
    }
    tests
}

fn tests() -> Vec<Test> {
    let crates = crates();
    let mut tests = Vec::new();
    for (file, text) in files(".rs") {
        let found = crates.iter().find_map(|krate| {
            let in_crate = file.strip_prefix(krate.as_str())?.strip_prefix('/')?;
            Some((krate, modules(in_crate)?))
        });
        let Some((krate, modules)) = found else {
            continue;
        };
        tests.extend(tests_of(&text).into_iter().map(|path| Test {
            file: file.clone(),
            krate: krate.clone(),
            path: modules.iter().cloned().chain(path).collect(),
        }));
    }
    tests
}

/// Returns true if the segments of a citation follow one another in a path.
fn is_cited(citation: &str, path: &[String]) -> bool {
    let segments: Vec<_> = citation
        .split("::")
        .filter(|segment| !segment.is_empty() && *segment != "…")
        .collect();
    let is_segment = |(cited, name): (&&str, &String)| {
        let (start, end) = cited.split_once('…').unwrap_or((cited, ""));
        match cited.contains('…') {
            true => name.starts_with(start) && name.ends_with(end),
            false => name == cited,
        }
    };
    let mut windows = path.windows(segments.len());
    windows.any(|window| segments.iter().zip(window).all(is_segment))
}

impl Test {
    fn is_in(&self, place: &str, crates: &[String]) -> bool {
        match crates.iter().any(|krate| krate == place) {
            true => self.krate == place,
            false => self.file.starts_with(&format!("{place}/")),
        }
    }
}

/// Last cells of the rows of tables of tests, with the numbers of their lines.
fn cells(text: &str) -> Vec<(usize, &str)> {
    let (mut cells, mut is_of_tests) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let row = line
            .strip_prefix("| ")
            .and_then(|row| row.strip_suffix(" |"));
        let last = row.and_then(|row| row.rsplit(" | ").next());
        match last {
            Some("Test") => is_of_tests = true,
            Some(last) if is_of_tests => cells.push((number + 1, last)),
            // The line below the head.
            None if line.starts_with("|---") => {}
            _ => is_of_tests = false,
        }
    }
    cells
}

/// Citations of a clause. A place holds for those between it and the place before; a second one
/// right behind the first holds for the same.
fn citations(clause: &str, folders: &BTreeSet<String>) -> Vec<Citation> {
    let clause = clause.replace("the catalog", &format!("`{CATALOG}`"));
    let (mut citations, mut cited, mut is_placed) = (Vec::new(), Vec::new(), false);
    let citation = |text: &&str, place: Option<&str>| Citation {
        text: (*text).to_owned(),
        place: place.map(str::to_owned),
    };
    for text in clause.split('`').skip(1).step_by(2) {
        if folders.contains(text) {
            citations.extend(cited.iter().map(|cited| citation(cited, Some(text))));
            is_placed = true;
        } else {
            if std::mem::take(&mut is_placed) {
                cited.clear();
            }
            cited.push(text);
        }
    }
    if !is_placed {
        citations.extend(cited.iter().map(|cited| citation(cited, None)));
    }
    citations
}

/// All folders of the repository.
fn folders() -> BTreeSet<String> {
    let names = files("").into_iter().map(|(name, _)| name);
    let parents = |name: String| {
        let ends = name.match_indices('/').map(|(at, _)| at);
        ends.map(|at| name[..at].to_owned()).collect::<Vec<_>>()
    };
    names.flat_map(parents).collect()
}

#[test]
fn every_cited_test_exists_where_it_is_cited_from() {
    let (tests, crates, folders) = (tests(), crates(), folders());
    let read = |name: &str| {
        files(name)
            .into_iter()
            .find(|(file, _)| file == name)
            .unwrap()
            .1
    };
    let (makefile, counts) = (read("Makefile"), read("benches/instructions.toml"));
    let exists = |citation: &Citation, is_bench: bool| {
        let Citation { text, place } = citation;
        if let Some(target) = text.strip_prefix("make ") {
            return makefile
                .lines()
                .any(|line| line.starts_with(&format!("{target}:")));
        }
        if is_bench {
            let case = format!("\"{}", text.trim_end_matches('…'));
            return counts.lines().any(|line| line.starts_with(&case));
        }
        tests.iter().any(|test| {
            let is_in = |place: &String| test.is_in(place, &crates);
            is_cited(text, &test.path) && place.as_ref().is_none_or(is_in)
        })
    };
    let mut offenders = Vec::new();
    for document in DOCUMENTS {
        let text = read(document);
        let cells = cells(&text);
        assert!(cells.len() > 50, "{document}: {} rows", cells.len());
        for (line, cell) in cells {
            for clause in cell.split(';') {
                let is_bench = clause.contains("`make bench-check`");
                let cited = citations(clause, &folders).into_iter();
                let missing = cited.filter(|citation| !exists(citation, is_bench));
                offenders.extend(missing.map(|Citation { text, place }| {
                    let place = place
                        .map(|place| format!(" in {place}"))
                        .unwrap_or_default();
                    format!("{document}:{line}: {text}{place}")
                }));
            }
        }
    }
    assert_none("no such test", &offenders);
}

#[test]
fn citations_match_tests_by_module_name_or_part() {
    let path = ["it", "hostile", "slow", "a_body_is_cut"].map(str::to_owned);
    for (citation, expected) in [
        ("slow", true),
        ("hostile::slow", true),
        ("slow::a_body_…", true),
        ("…_is_cut", true),
        ("…::a_body_is_cut", true),
        ("slow::a_body", false),
        ("hostile::a_body_is_cut", false),
        ("slow::…_is_kept", false),
    ] {
        assert_eq!(is_cited(citation, &path), expected, "{citation}");
    }
    let folders = BTreeSet::from(["a/b", CATALOG].map(str::to_owned));
    let clause = "x: `a::b`, `c` in `a/b`, `d` in `a/b` and in the catalog, `e`";
    let found = citations(clause, &folders);
    let places = found
        .iter()
        .map(|it| (it.text.as_str(), it.place.as_deref()));
    let expected = [
        ("a::b", Some("a/b")),
        ("c", Some("a/b")),
        ("d", Some("a/b")),
        ("d", Some(CATALOG)),
        ("e", None),
    ];
    assert_eq!(places.collect::<Vec<_>>(), expected);
    let text = "#[cfg(test)]\nmod tests {\n    on_both!(\n        b,\n        c,\n    );\n\n    #[tokio::test(x)]\n    \
                async fn a() {}\n    fn helper() {}\n}\non_both!(d);\n";
    let found = tests_of(text).into_iter().map(|path| path.join("::"));
    let found: Vec<_> = found.collect();
    assert_eq!(found, ["tests::b", "tests::c", "tests::a", "d"]);
}
