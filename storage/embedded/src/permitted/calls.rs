//! Finds calls of functions in a statement.
//!
//! Texts are left out unless the engine may read them as SQL (`readers`), or sees their ends elsewhere than we do. Then
//! quotes, escapes and comments hide nothing, and what looks like a call and is none is found as well.

use std::borrow::Cow;

use super::pieces::{Pieces, is_word};
use super::readers;
use crate::sql::names::{unescaped, without_texts};

/// How often a text in a text is looked into.
const DEPTH_MAX: usize = 8;

/// The first of the `sought` (given in lower case) that is called, or passed to a function that calls it.
pub(super) fn find(
    sql: &[u8],
    reads: &readers::Reads,
    sought: &dyn Fn(&str) -> bool,
) -> Option<String> {
    match without_texts(sql) {
        Some(plain) if !reads.texts => find_as_written(&plain, true, sought),
        _ => find_anywhere(sql, sought),
    }
}

/// As [`find`], also in texts and in texts of texts.
pub(super) fn find_anywhere(sql: &[u8], sought: &dyn Fn(&str) -> bool) -> Option<String> {
    let mut text = Cow::Borrowed(sql);
    for _ in 0..DEPTH_MAX {
        // What begins a comment in SQL is part of a text in another place.
        for skips_comments in [true, false] {
            if let Some(name) = find_as_written(&text, skips_comments, sought) {
                return Some(name);
            }
        }
        if !text.contains(&b'\\') {
            return None;
        }
        // A text in a text is escaped twice.
        text = Cow::Owned(unescaped(&text));
    }
    None
}

fn find_as_written(
    text: &[u8],
    skips_comments: bool,
    sought: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let mut pieces = Pieces::new(text, skips_comments);
    let after = |pieces: Pieces<'_>| {
        pieces
            .without_comments()
            .map(|piece| piece.text.to_owned())
            .next()
            .unwrap_or_default()
    };
    let first = after(pieces);
    let is_copy = ["BACKUP", "RESTORE"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word));
    // The last piece, and the last that opened no parenthesis.
    let (mut last, mut outer) = ("", "");
    let mut arguments = Arguments::default();
    while let Some(piece) = pieces.next() {
        let name = piece.text.to_ascii_lowercase();
        if is_word(piece.text) && sought(&name) {
            let next = after(pieces);
            let is_place = is_copy
                && ["TO", "FROM", "="]
                    .iter()
                    .any(|it| last.eq_ignore_ascii_case(it));
            let is_applied = outer.eq_ignore_ascii_case("APPLY");
            let is_passed = arguments.may_be_function() && last != "." && next != ".";
            if (next == "(" && !is_place) || (!piece.is_text && (is_applied || is_passed)) {
                return Some(name);
            }
        }
        arguments.go_on(last, piece.text);
        last = piece.text;
        if last != "(" {
            outer = last;
        }
    }
    None
}

/// Parentheses that are open, to tell where a function may be passed to another.
#[derive(Debug, Default)]
struct Arguments(Vec<Parenthesis>);

/// An open parenthesis.
#[derive(Copy, Clone, Debug)]
struct Parenthesis {
    /// A function's name may stand in it: in the first argument of a function that takes one, and in parentheses around that.
    takes_function: bool,
    /// What stands here is behind a comma, or in the body of a lambda.
    is_past: bool,
}

impl Arguments {
    fn may_be_function(&self) -> bool {
        self.0
            .last()
            .is_some_and(|open| open.takes_function && !open.is_past)
    }

    fn go_on(&mut self, last: &str, piece: &str) {
        match piece {
            "(" => {
                // They stand before an argument as signs do, and the engine drops them.
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
            _ if piece == "," || (piece == ">" && last == "-") => {
                if let Some(open) = self.0.last_mut() {
                    open.is_past = true;
                }
            }
            _ => {}
        }
    }
}

/// Functions that take a function begin so.
pub(super) fn calls_its_arguments(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("array") || name.starts_with("map")
}
