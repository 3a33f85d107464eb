//! Shortens values that are wider than their column: a row that can never be stored would block its
//! whole window for ever.

use super::row::Cell;
use super::{ColumnType, Layout};
use std::borrow::Cow;

/// Width of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Unlimited.
    Any,
    /// Number of characters.
    Chars(usize),
    /// Number of bytes of UTF-8.
    Bytes(usize),
}

/// Widths of a table's columns.
pub(crate) type Widths = Vec<Width>;

/// Makes the values fit: texts are cut off, JSON is replaced by a note of its length. Returns true
/// if any value was changed.
pub(crate) fn fit(layout: &Layout, cells: &mut [Cell<'_>], widths: &Widths) -> bool {
    let mut changed = false;
    for ((cell, width), column) in cells.iter_mut().zip(widths).zip(layout.columns) {
        let Some(text) = cell else { continue };
        let Some(end) = width.end(text) else { continue };
        changed = true;
        let fitting = match column.column_type {
            ColumnType::Json => Cow::Owned(format!(r#"{{"$oversize_bytes":{}}}"#, text.len())),
            _ => Cow::Owned(text.get(..end).unwrap_or_default().to_owned()),
        };
        *cell = Some(fitting);
    }
    changed
}

impl Width {
    /// Position at which a text has to end, if it is too wide.
    fn end(self, text: &str) -> Option<usize> {
        match self {
            Self::Any => None,
            // A text has no more characters than bytes.
            Self::Chars(max) if text.len() <= max => None,
            Self::Chars(max) => text.char_indices().nth(max).map(|(end, _)| end),
            Self::Bytes(max) => (text.len() > max).then(|| text.floor_char_boundary(max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Width, fit};
    use crate::destination::table::EVENTS;

    #[test]
    fn texts_are_cut_between_characters_and_json_is_noted() {
        let table = [
            (1, Width::Any, "éé", None),
            (1, Width::Chars(2), "éé", None),
            (1, Width::Chars(2), "ééa", Some("éé")),
            (1, Width::Bytes(4), "éé", None),
            (1, Width::Bytes(3), "éé", Some("é")),
            (1, Width::Bytes(0), "é", Some("")),
            (2, Width::Bytes(9), r#"{"a":"b"}"#, None),
            (
                2,
                Width::Bytes(8),
                r#"{"a":"b"}"#,
                Some(r#"{"$oversize_bytes":9}"#),
            ),
        ];
        for (column, width, text, expected) in table {
            let mut widths = vec![Width::Any; EVENTS.columns.len()];
            widths[column] = width;
            let mut cells = vec![None; EVENTS.columns.len()];
            cells[column] = Some(text.into());
            assert_eq!(
                fit(&EVENTS, &mut cells, &widths),
                expected.is_some(),
                "{text} {width:?}"
            );
            assert_eq!(cells[column].as_deref(), Some(expected.unwrap_or(text)));
        }
    }
}
