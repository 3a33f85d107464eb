//! Patterns of `match`, `LIKE` and similar functions. They must be literals, so that their size is
//! known before they run.
//!
//! A pattern that a query computes (`concat('a[ab]{', '300}c')`), or takes from a column or an
//! event, is known only once the query runs; so such patterns are refused.

use super::error::QueryError;
use super::literal::text_of;
use super::regex_size::{CLASS_NODES, LITERAL_NODES, regex_nodes};
use sqlparser::ast::Expr;

/// Index of the pattern among the arguments of all functions that take one.
pub(super) const PATTERN_INDEX: usize = 1;

/// Functions that take a regular expression.
const OF_REGEX: [&str; 5] = [
    "match",
    "extract",
    "extractAll",
    "replaceRegexpOne",
    "replaceRegexpAll",
];
/// Functions that take a pattern of `LIKE`, which ClickHouse converts into a regular expression.
const OF_LIKE: [&str; 4] = ["like", "notLike", "ilike", "notILike"];

/// Size of an argument as a pattern; 0 if it is none.
pub(super) fn pattern_nodes(function: &str, argument: &Expr) -> Result<u64, QueryError> {
    let is_in = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(function));
    let size = match (is_in(&OF_REGEX), is_in(&OF_LIKE)) {
        (true, _) => regex_nodes,
        (_, true) => like_nodes,
        _ => return Ok(0),
    };
    let text = written_text(argument).ok_or_else(|| {
        QueryError(format!(
            "The pattern of {function} must be written out, as one text between quotes: a query may \
             not put it together or take it from a column. To find the text of one column in another, \
             write position(one, other) > 0."
        ))
    })?;
    Ok(size(&text))
}

/// Text of an expression, if it is a literal.
fn written_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(literal) => text_of(&literal.value),
        Expr::Nested(inner) => written_text(inner),
        _ => None,
    }
}

fn like_nodes(text: &str) -> u64 {
    let nodes = text.chars().map(|c| match c {
        '%' => 1,
        '_' => CLASS_NODES,
        _ => LITERAL_NODES,
    });
    nodes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use crate::query::{ExportQuery, functions};

    #[test]
    fn usual_patterns_are_accepted_and_explosive_ones_refused() {
        let of = |condition: &str, times: usize| {
            let columns: Vec<_> = (0..times).map(|n| format!("{condition} AS m{n}")).collect();
            let text = format!("SELECT {} FROM events", columns.join(", "));
            ExportQuery::parse(&text).is_ok()
        };
        let words = vec!["crawler"; 200].join("|");
        let table = [
            ("^[0-9a-f]{8}-[0-9a-f]{4}$".to_owned(), 20, true),
            ("[a-z0-9]{64}".to_owned(), 10, true),
            (words, 1, true),
            ("a[ab]{300}c".to_owned(), 1, true),
            ("a[ab]{300}c".to_owned(), 5, false),
            ("(a[ab]{100}){100}".to_owned(), 1, false),
            (r"a[ab]\x7b300}c".to_owned(), 5, false),
            (r"\\C((a{10}){10}){10}".to_owned(), 1, false),
            // The same patterns with their repetitions expanded.
            (format!("a{}c", "[ab]".repeat(300)), 5, false),
            (format!("a{}c", ".".repeat(1_500)), 1, false),
            ("a".repeat(3_000), 1, false),
        ];
        for (pattern, times, is_taken) in table {
            let condition = format!("match(properties, '{pattern}')");
            assert_eq!(of(&condition, times), is_taken, "{pattern} {times}");
        }
        for (pattern, is_taken) in [
            ("%purchase%".to_owned(), true),
            (format!("%a{}c%", "_".repeat(1_500)), false),
        ] {
            let condition = format!("properties LIKE '{pattern}'");
            assert_eq!(of(&condition, 1), is_taken, "{pattern}");
        }
    }

    /// Expressions that hide a pattern.
    const UNSEEN: &[&str] = &[
        "concat('a[ab]{', '300}c')",
        "'a[ab]{' || '300}c'",
        "('a[ab]{' || '300}c')",
        "replaceAll('a[ab]<300>c', '<', '{')",
        "replaceRegexpAll('a[ab]<300}c', '<', '{')",
        "unhex('615b61625d7b3330307d63')",
        "base64Decode('YVthYl17MzAwfWM=')",
        "toString('a[ab]{300}c')",
        "'a[ab]{300}c'::String",
        "CAST('a[ab]{300}c' AS String)",
        "if(1, 'a[ab]{300}c', '')",
        "CASE WHEN true THEN 'a[ab]{300}c' ELSE '' END",
        "['a[ab]{300}c'][1]",
        "tupleElement(('a[ab]{300}c', 1), 1)",
        "lower('A[AB]{300}C')",
        "substring('xa[ab]{300}c', 2)",
        "trim(' a[ab]{300}c ')",
        "max('a[ab]{300}c')",
        "pattern",
        "`pattern`",
        "events.distinct_id",
        "distinct_id",
        "properties",
        "NULL",
        "1",
    ];

    #[test]
    fn a_pattern_must_be_a_literal_wherever_a_function_takes_one() {
        let calls = [
            "match(properties, PATTERN)",
            "MATCH(properties, PATTERN)",
            "extractAll(properties, PATTERN)",
            "replaceRegexpOne(properties, PATTERN, '')",
            "replaceRegexpAll(properties, PATTERN, '')",
            "like(properties, PATTERN)",
            "ilike(properties, PATTERN)",
            "notLike(properties, PATTERN)",
            "properties LIKE PATTERN",
            "properties NOT LIKE PATTERN",
            "properties ILIKE PATTERN",
            "properties NOT ILIKE PATTERN",
            "(properties LIKE PATTERN) OR true",
        ];
        for call in calls {
            for pattern in UNSEEN {
                let condition = call.replace("PATTERN", pattern);
                let places = [
                    format!("SELECT 'a[ab]{{300}}c' AS pattern, {condition} AS m FROM events"),
                    format!("SELECT 'a[ab]{{300}}c' AS pattern FROM events WHERE {condition}"),
                ];
                for text in places {
                    let error = ExportQuery::parse(&text).expect_err(&text);
                    let is_told = error.to_string().contains("must be written out");
                    assert!(is_told, "{text}: {error}");
                }
            }
            for pattern in ["'^a[ab]{3}'", "('^a')"] {
                let condition = call.replace("PATTERN", pattern);
                let text = format!("SELECT {condition} AS m FROM events");
                ExportQuery::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }

    #[test]
    fn every_function_with_a_pattern_is_listed() {
        let by_name = functions().map(|(name, _)| name).filter(|name| {
            let name = name.to_lowercase();
            ["match", "extract", "regexp", "like"]
                .iter()
                .any(|part| name.contains(part))
                && !["json", "url"].iter().any(|part| name.contains(part))
        });
        for name in by_name {
            let is_known = super::OF_REGEX.contains(&name) || super::OF_LIKE.contains(&name);
            assert!(is_known, "{name}");
        }
    }
}
