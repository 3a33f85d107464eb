//! Size of a regular expression with its repetitions expanded.
//!
//! `a[ab]{300}c` is a program of 300 steps, and an engine that cannot keep all its states at once
//! runs each of them for every character: a second for a text of half a megabyte. ClickHouse's
//! pattern functions have no limit of their own on that, so steps count towards the size of a
//! query.

use regex_syntax::ast::parse::ParserBuilder;
use regex_syntax::ast::{Ast, RepetitionKind, RepetitionRange};

/// Nodes that a step counts for if it matches one of several characters.
pub(super) const CLASS_NODES: u64 = 16;
/// Nodes that a step counts for if it matches one character: few texts match many of them in a row.
pub(super) const LITERAL_NODES: u64 = 8;
/// Nodes that a step counts for if it matches no character.
const EMPTY_NODES: u64 = 1;
/// Levels to which groups are followed.
const GROUPS_MAX: u32 = 50;
/// Repetitions of a part at most, nested ones multiplied: the engine refuses more.
const TIMES_MAX: u64 = 1_000;

/// Size of a regular expression, in nodes of a query.
pub(super) fn regex_nodes(text: &str) -> u64 {
    let mut parser = ParserBuilder::new().nest_limit(GROUPS_MAX).build();
    match parser.parse(text) {
        Ok(pattern) => nodes(&pattern),
        // ClickHouse may parse it another way: each part may be in all of the repetitions.
        Err(_) => {
            let chars = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
            let steps = chars.saturating_mul(largest_repetition(text));
            steps.saturating_mul(CLASS_NODES)
        }
    }
}

fn nodes(pattern: &Ast) -> u64 {
    let of_all = |parts: &[Ast]| parts.iter().map(nodes).fold(0, u64::saturating_add);
    match pattern {
        Ast::Repetition(repetition) => {
            let times = match &repetition.op.kind {
                RepetitionKind::Range(range) => times(range),
                _ => 1,
            };
            nodes(&repetition.ast).saturating_mul(times)
        }
        Ast::Group(group) => nodes(&group.ast),
        Ast::Concat(parts) => of_all(&parts.asts),
        Ast::Alternation(parts) => of_all(&parts.asts),
        Ast::Literal(_) => LITERAL_NODES,
        Ast::Empty(_) | Ast::Flags(_) | Ast::Assertion(_) => EMPTY_NODES,
        Ast::Dot(_) | Ast::ClassUnicode(_) | Ast::ClassPerl(_) | Ast::ClassBracketed(_) => {
            CLASS_NODES
        }
    }
}

fn times(range: &RepetitionRange) -> u64 {
    let times = match range {
        RepetitionRange::Exactly(times) | RepetitionRange::AtLeast(times) => times,
        RepetitionRange::Bounded(_, most) => most,
    };
    u64::from(*times).max(1)
}

/// Product of all numbers that could be read as bounds of a repetition.
fn largest_repetition(text: &str) -> u64 {
    let bounds = text
        .split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'));
    let times = bounds.filter_map(|(bounds, _)| {
        let numbers = bounds.split(',');
        numbers
            .filter_map(|number| number.trim().parse::<u64>().ok())
            .max()
    });
    let product = times.fold(1, |all: u64, times| all.saturating_mul(times.max(1)));
    product.min(TIMES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_with_repetitions_expanded() {
        let table = [
            ("", EMPTY_NODES),
            ("a+b*c?", 3 * LITERAL_NODES),
            ("a{1}", LITERAL_NODES),
            ("a{3}", 3 * LITERAL_NODES),
            ("a{3,}", 3 * LITERAL_NODES),
            ("a{3,7}b{2}", 9 * LITERAL_NODES),
            ("[a-z0-9]{32}", 32 * CLASS_NODES),
            (r"\d{4}-\d{2}", 6 * CLASS_NODES + LITERAL_NODES),
            ("(ab){10}", 20 * LITERAL_NODES),
            ("((.{10}){10}){10}", 1_000 * CLASS_NODES),
            (r"(aaa\(b){10}", 50 * LITERAL_NODES),
            ("^a|b$", 2 * LITERAL_NODES + 2 * EMPTY_NODES),
            // Patterns that other parsers read otherwise, or none reads.
            ("ab{,5}", 6 * 5 * CLASS_NODES),
            (r"(\Q(\Eaaaaa){10}", 16 * 10 * CLASS_NODES),
            (r"\C((a{10}){10}){10}", 19 * 1_000 * CLASS_NODES),
            ("a{3", 3 * CLASS_NODES),
            ("a{x}", 4 * CLASS_NODES),
        ];
        for (text, expected) in table {
            assert_eq!(regex_nodes(text), expected, "{text}");
        }
        let deep = format!("{}a{{5}}", "(".repeat(200));
        assert_eq!(regex_nodes(&deep), 204 * 5 * CLASS_NODES);
    }
}
