//! Where a text stops being JavaScript or TypeScript.

use serde::Serialize;
use std::fmt;
use tree_sitter::{Node, Tree};

/// The place of the first mistake in a text, counted from 1, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

impl fmt::Display for Mistake {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

impl Mistake {
    /// The first mistake of a parsed text.
    pub(super) fn first_in(tree: &Tree, source: &str) -> Option<Self> {
        let root = tree.root_node();
        if !root.has_error() {
            return None;
        }
        let byte = match first_wrong(root) {
            Some(node) => node.start_byte(),
            // All of it is one, which begins well: it is never finished.
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

/// The first node below the root that is wrong, or that was made up.
fn first_wrong(root: Node<'_>) -> Option<Node<'_>> {
    // A cursor, as trees may be deeper than a stack.
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
