//! Position of the first syntax error in JavaScript or TypeScript.

use serde::Serialize;
use std::fmt;
use tree_sitter::{Node, Tree};

/// Position of the first syntax error in a text, counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SyntaxError {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

impl SyntaxError {
    /// Finds the first syntax error of a parsed text.
    pub(super) fn first_in(tree: &Tree, source: &str) -> Option<Self> {
        let root = tree.root_node();
        if !root.has_error() {
            return None;
        }
        let byte = match first_wrong(root) {
            Some(node) => node.start_byte(),
            // All of the text is one statement, which is never finished.
            None => source.trim_end().len(),
        };
        Some(Self::at(byte, source))
    }

    fn at(byte: usize, source: &str) -> Self {
        let before = source.get(..byte).unwrap_or(source);
        let last = before.rsplit('\n').next().unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: last.chars().count() + 1,
        }
    }
}

/// Finds the first node below the root that is wrong or missing.
fn first_wrong(root: Node<'_>) -> Option<Node<'_>> {
    // By a cursor, since trees may be deeper than the stack.
    let mut cursor = root.walk();
    let mut goes_on = cursor.goto_first_child();
    while goes_on {
        let node = cursor.node();
        if node.is_error() || node.is_missing() {
            return Some(node);
        }
        goes_on = if node.has_error() {
            cursor.goto_first_child()
        } else {
            cursor.goto_next_sibling()
        };
    }
    None
}
