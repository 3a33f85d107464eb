//! Documentation has no tests: `make test` runs none, as to look for them in every crate takes
//! minutes.
//!
//! rustdoc takes a block of code for a test if it is fenced without a language or with one of
//! Rust's tags, or if it is indented by four spaces.

use crate::tidy::{assert_none, files};

/// Tags of a block that is Rust all the same.
const RUST_TAGS: [&str; 7] = [
    "rust",
    "should_panic",
    "no_run",
    "ignore",
    "compile_fail",
    "test_harness",
    "standalone_crate",
];
/// Beginnings of tags of such a block: an edition, a target to ignore.
const RUST_TAG_STARTS: [&str; 2] = ["edition", "ignore-"];
/// Indentation of a block of code without a fence.
const CODE_INDENT: usize = 4;

/// Finds the numbers of lines at which rustdoc would begin a test.
fn doc_tests(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut comment = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(doc) = doc_text(line) {
            comment.push((index + 1, doc));
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            found.extend(tests_of(&std::mem::take(&mut comment)));
        }
    }
    found.extend(tests_of(&comment));
    found
}

/// Text of a line of documentation. Four slashes begin a usual comment.
fn doc_text(line: &str) -> Option<&str> {
    if line.starts_with("////") {
        return None;
    }
    line.strip_prefix("///")
        .or_else(|| line.strip_prefix("//!"))
}

/// Finds the tests of one comment, of which each line has its number.
fn tests_of(comment: &[(usize, &str)]) -> Vec<usize> {
    let indent = |text: &str| text.len() - text.trim_start().len();
    let filled = comment.iter().filter(|(_, text)| !text.trim().is_empty());
    let margin = filled.map(|(_, text)| indent(text)).min().unwrap_or(0);
    let mut found = Vec::new();
    let mut open_fence: Option<&str> = None;
    let (mut list_indent, mut is_after_blank) = (0, true);
    for (number, text) in comment {
        let text = text.get(margin..).unwrap_or_default();
        let (content, is_item) = content(text);
        let offset = text.len() - content.len();
        match (open_fence, fence(content)) {
            (Some(open), Some((marker, ""))) if marker.starts_with(open) => open_fence = None,
            (Some(_), _) => {}
            (None, Some((marker, info))) => {
                open_fence = Some(marker);
                found.extend(is_rust(info).then_some(*number));
            }
            (None, None) if content.is_empty() => {}
            (None, None) if is_item => list_indent = offset,
            (None, None) if offset >= list_indent + CODE_INDENT && is_after_blank => {
                found.push(*number);
            }
            (None, None) if offset < list_indent => list_indent = 0,
            (None, None) => {}
        }
        is_after_blank = content.is_empty();
    }
    found
}

/// Text of a line behind the marks of quotations and lists, and true if it begins an item.
fn content(text: &str) -> (&str, bool) {
    let (mut text, mut is_item) = (text, false);
    loop {
        let trimmed = text.trim_start();
        let digits = trimmed.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let mut marks = vec![(trimmed, "- "), (trimmed, "* "), (trimmed, "+ ")];
        if digits.len() < trimmed.len() {
            marks.extend([(digits, ". "), (digits, ") ")]);
        }
        let item = marks
            .iter()
            .find_map(|(rest, mark)| rest.strip_prefix(mark));
        match item.or_else(|| trimmed.strip_prefix('>')) {
            Some(rest) => (text, is_item) = (rest, is_item || item.is_some()),
            None => return (trimmed, is_item),
        }
    }
}

/// Marks of a fence, and the text behind them.
fn fence(content: &str) -> Option<(&str, &str)> {
    let mark = content.chars().next().filter(|mark| "`~".contains(*mark))?;
    let info = content.trim_start_matches(mark);
    let marker = &content[..content.len() - info.len()];
    // Code within a line has its second marks behind the first.
    let is_fence = marker.len() >= 3 && (mark == '~' || !info.contains('`'));
    is_fence.then_some((marker, info.trim()))
}

/// Returns true if the text behind a fence names no language, or Rust.
fn is_rust(info: &str) -> bool {
    let mut tags = info.split([',', ' ', '\t']).filter(|tag| !tag.is_empty());
    let is_code = |tag: &str| {
        let digits = tag.strip_prefix('E').unwrap_or_default();
        digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    let is_tag = |tag: &str| {
        let mut starts = RUST_TAG_STARTS.iter();
        RUST_TAGS.contains(&tag) || starts.any(|start| tag.starts_with(start)) || is_code(tag)
    };
    info.is_empty() || tags.any(is_tag)
}

#[test]
fn no_block_of_code_in_documentation_would_be_a_test() {
    let mut offenders = Vec::new();
    for (name, text) in files(".rs") {
        let tests = doc_tests(&text).into_iter();
        offenders.extend(tests.map(|number| format!("{name}:{number}")));
        // Documentation that is not read above.
        let others = ["/**", "/*!", "#[doc = ", "#![doc = "];
        let is_other = |line: &str| others.iter().any(|other| line.starts_with(other));
        if text.lines().any(|line| is_other(line.trim_start())) {
            offenders.push(format!("{name}: documentation without `///` or `//!`"));
        }
    }
    assert_none("mark these blocks as `text`", &offenders);
}

#[test]
fn blocks_of_code_that_rustdoc_takes_for_tests_are_found() {
    let table: [(&str, &[usize]); 22] = [
        ("/// ```\n/// a();\n/// ```", &[1]),
        ("//! ```rust\n//! ```", &[1]),
        ("    /// ```rust,no_run\n    /// ```", &[1]),
        ("/// ```should_panic", &[1]),
        ("/// ``` ignore-windows", &[1]),
        ("/// ```compile_fail,E0277", &[1]),
        ("/// ~~~\n/// a();\n/// ~~~", &[1]),
        ("/// ````\n/// ```text\n/// ````", &[1]),
        ("///```\n///```", &[1]),
        ("///   ```\n///   ```", &[1]),
        ("/// - ```\n///   ```", &[1]),
        ("/// > ```\n/// > ```", &[1]),
        ("/// A.\n///\n///     a();", &[3]),
        ("/// - A.\n///\n///       a();", &[3]),
        ("/// ```text\n/// ```\n/// B.\n/// ```\n/// ```", &[4]),
        ("/// ```\n#[must_use]\n/// ```\nfn a() {}\n/// ```", &[1, 5]),
        ("/// ```text\n///\n///     a\n/// ```", &[]),
        ("/// ```json\n/// ```", &[]),
        ("/// ```a``` is code within a line.", &[]),
        ("/// - A.\n///   more\n///\n///   of it", &[]),
        ("/// A.\n///     goes on", &[]),
        ("//// ```\n// ```\nlet a = \"/// ```\";", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(doc_tests(text), expected, "{text}");
    }
}
