//! Finds calls of refused functions in a statement.
//!
//! String literals are skipped unless the engine may read them as SQL (`indirect_sql`), or may see
//! their ends elsewhere than our lexer. Then quotes, escapes and comments hide nothing, at the cost
//! of false positives.

use std::borrow::Cow;

use super::indirect_sql::{self, calls_its_arguments};
use super::raw_tokens::{RawTokens, is_word};
use crate::sql::names::{unescaped, without_literals};

/// Deepest nesting of literals in literals that is searched.
const DEPTH_MAX: usize = 8;

/// Times its own length that a text is read to find what comes behind comments.
const AHEAD_FACTOR_MAX: usize = 8;

/// Returns the first function that `is_refused` (asked in lower case) and that is called, or passed
/// to a function that calls it.
pub(super) fn find(
    sql: &[u8],
    indirect: &indirect_sql::IndirectSql,
    is_refused: &dyn Fn(&str) -> bool,
) -> Option<String> {
    match without_literals(sql) {
        Some(plain) if !indirect.literals => find_as_written(&plain, true, is_refused),
        _ => find_anywhere(sql, is_refused),
    }
}

/// Like [`find`], but also in string literals, and in literals within them.
pub(super) fn find_anywhere(sql: &[u8], is_refused: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut text = Cow::Borrowed(sql);
    for _ in 0..DEPTH_MAX {
        // The beginning of a comment may in fact be part of a literal.
        for skips_comments in [true, false] {
            if let Some(name) = find_as_written(&text, skips_comments, is_refused) {
                return Some(name);
            }
        }
        if !text.contains(&b'\\') {
            return None;
        }
        // A literal within a literal is escaped twice.
        text = Cow::Owned(unescaped(&text));
    }
    None
}

fn find_as_written(
    text: &[u8],
    skips_comments: bool,
    is_refused: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let mut tokens = RawTokens::new(text, skips_comments);
    let mut ahead_bytes = 0;
    let mut after = |tokens: RawTokens<'_>| {
        let mut ahead = tokens.without_comments();
        let next = ahead.next().map(|token| token.text.to_owned());
        ahead_bytes += ahead.at() - tokens.at();
        // Comments within comments are skipped again for each around them.
        let is_read = ahead_bytes <= AHEAD_FACTOR_MAX * text.len();
        is_read.then(|| next.unwrap_or_default())
    };
    let first = after(tokens).unwrap_or_default();
    let is_backup = ["BACKUP", "RESTORE"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word));
    // The last token, and the last that is no opening parenthesis.
    let (mut last, mut outer) = ("", "");
    let mut arguments = Arguments::default();
    while let Some(token) = tokens.next() {
        let name = token.text.to_ascii_lowercase();
        if is_word(token.text) && is_refused(&name) {
            let Some(next) = after(tokens) else {
                return Some(name);
            };
            let is_backup_location = is_backup
                && ["TO", "FROM", "="]
                    .iter()
                    .any(|it| last.eq_ignore_ascii_case(it));
            let is_applied = outer.eq_ignore_ascii_case("APPLY");
            let is_passed = arguments.may_be_function() && last != "." && next != ".";
            if (next == "(" && !is_backup_location) || (!token.is_text && (is_applied || is_passed))
            {
                return Some(name);
            }
        }
        arguments.advance(last, token.text);
        last = token.text;
        if last != "(" {
            outer = last;
        }
    }
    None
}

/// Open parentheses, to tell where a function may be passed to another.
#[derive(Debug, Default)]
struct Arguments(Vec<Parenthesis>);

/// An open parenthesis.
#[derive(Copy, Clone, Debug)]
struct Parenthesis {
    /// True in the first argument of a function that takes a function, and in parentheses around
    /// that argument.
    takes_function: bool,
    /// True behind a comma, and in the body of a lambda.
    is_past: bool,
}

impl Arguments {
    fn may_be_function(&self) -> bool {
        self.0
            .last()
            .is_some_and(|open| open.takes_function && !open.is_past)
    }

    fn advance(&mut self, last: &str, token: &str) {
        match token {
            "(" => {
                // Both words stand before an argument as signs do, and the engine drops them.
                let is_call = is_word(last)
                    && !["ALL", "DISTINCT"]
                        .iter()
                        .any(|word| last.eq_ignore_ascii_case(word));
                let takes_function = if is_call {
                    calls_its_arguments(last)
                } else {
                    self.may_be_function()
                };
                self.0.push(Parenthesis {
                    takes_function,
                    is_past: false,
                });
            }
            ")" => {
                self.0.pop();
            }
            _ if token == "," || (token == ">" && last == "-") => {
                if let Some(open) = self.0.last_mut() {
                    open.is_past = true;
                }
            }
            _ => {}
        }
    }
}
