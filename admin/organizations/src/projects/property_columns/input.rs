//! Input for property columns: properties that get one, and their bounds.

use super::budget::Width;
use crate::names::must_be_plain;
use millrace_catalog::limits::PROPERTY_COLUMNS_MAX;
use millrace_catalog::{
    ChangeError, Patch, PropertyColumnRecord, PropertyColumnType, PropertyPath, Violation,
};
use millrace_rows::PropertyType;
use schemars::JsonSchema;
use serde::Deserialize;

/// Most keys of a path.
const PATH_KEYS_MAX: usize = 4;
/// Longest key of a path, in characters.
const KEY_CHARS_MAX: usize = 200;
/// Longest text that a column may keep, in bytes.
const TEXT_BYTES_MAX: i32 = 2_048;
/// Longest text that a column keeps if nothing else was asked for, in bytes.
const TEXT_BYTES: i32 = 256;
/// Field of the API.
const FIELD: &str = "columns";

/// Property that gets a column.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct NewPropertyColumn {
    /// Keys that lead to the property, from those of `properties` on.
    #[schemars(
        length(min = 1, max = PATH_KEYS_MAX),
        inner(length(min = 1, max = KEY_CHARS_MAX))
    )]
    pub path: Vec<String>,
    /// Type of the column.
    #[serde(rename = "type")]
    pub kind: PropertyColumnType,
    /// Longest text that is kept, in bytes; 256 if null or not given. Only of `String` and
    /// `LowCardinality`.
    #[schemars(range(min = 1, max = TEXT_BYTES_MAX))]
    pub bytes_max: Option<i32>,
}

/// Property columns of a project to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchPropertyColumns")]
#[serde(default)]
pub struct PropertyColumnsChange {
    /// All columns of the project. Those that are there already stay; a change of a column's path,
    /// type or `bytes_max` makes another one.
    #[schemars(length(max = PROPERTY_COLUMNS_MAX))]
    pub columns: Patch<Vec<NewPropertyColumn>>,
}

/// Property column whose fields are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckedColumn {
    pub(super) path: PropertyPath,
    pub(super) kind: PropertyColumnType,
    pub(super) bytes_max: Option<i32>,
}

impl NewPropertyColumn {
    /// Validates the fields.
    pub(super) fn checked(self) -> Result<CheckedColumn, ChangeError> {
        if self.path.is_empty() || self.path.len() > PATH_KEYS_MAX {
            let detail = format!("A path has 1 to {PATH_KEYS_MAX} keys.");
            return Err(ChangeError::invalid("path", "invalid_input", detail));
        }
        for key in &self.path {
            // As it is in the events: spaces count.
            if key.is_empty() || key.chars().count() > KEY_CHARS_MAX {
                let detail = format!("A key has 1 to {KEY_CHARS_MAX} characters.");
                return Err(ChangeError::invalid("path", "invalid_input", detail));
            }
            must_be_plain("path", key)?;
        }
        let is_text = PropertyType::from(self.kind).is_text();
        let bytes_max = match (self.bytes_max, is_text) {
            (None, true) => Some(TEXT_BYTES),
            (Some(1..=TEXT_BYTES_MAX), true) => self.bytes_max,
            (None, false) => None,
            (Some(_), true) => {
                let detail = format!("A column keeps texts of 1 to {TEXT_BYTES_MAX} bytes.");
                return Err(ChangeError::invalid("bytes_max", "invalid_input", detail));
            }
            (Some(_), false) => {
                let detail = "Only String and LowCardinality have a bytes_max.";
                return Err(ChangeError::invalid("bytes_max", "invalid_input", detail));
            }
        };
        Ok(CheckedColumn {
            path: PropertyPath(self.path),
            kind: self.kind,
            bytes_max,
        })
    }
}

impl CheckedColumn {
    /// Returns true for a column of this definition.
    pub(super) fn is(&self, row: &PropertyColumnRecord) -> bool {
        (&self.path, self.kind, self.bytes_max) == (&row.path, row.kind, row.bytes_max)
    }

    /// Returns true for a column with the same values, but for long texts.
    pub(super) fn is_of_property(&self, path: &PropertyPath, kind: PropertyColumnType) -> bool {
        (&self.path, self.kind) == (path, kind)
    }

    /// Width of the column.
    pub(super) const fn width(&self) -> Width {
        (self.kind, self.bytes_max)
    }
}

/// Validates the columns of a project, or of all projects, as they are to be.
pub(super) fn checked(columns: Vec<NewPropertyColumn>) -> Result<Vec<CheckedColumn>, ChangeError> {
    let mut checked: Vec<CheckedColumn> = Vec::new();
    for (index, column) in columns.into_iter().enumerate() {
        let column = column.checked().map_err(|error| blame(index, error))?;
        let mut earlier = checked.iter();
        if earlier.any(|other| other.is_of_property(&column.path, column.kind)) {
            return Err(blame(index, twice()));
        }
        checked.push(column);
    }
    Ok(checked)
}

/// Error of a property that has a column of this type already.
pub(super) fn twice() -> ChangeError {
    let detail = "This property has a column of this type already.";
    ChangeError::invalid("path", "unique", detail)
}

/// Prefixes the field of an error with a column's place in the list.
pub(super) fn blame(index: usize, error: ChangeError) -> ChangeError {
    let ChangeError::Invalid(violation) = error else {
        return error;
    };
    let field = violation.field.as_deref().unwrap_or("path");
    ChangeError::Invalid(Box::new(Violation {
        field: Some(format!("{FIELD}__{index}__{field}")),
        ..*violation
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use PropertyColumnType::{DateTime64, Int64, LowCardinality, String as Text};

    fn new(keys: &[&str], kind: PropertyColumnType, bytes_max: Option<i32>) -> NewPropertyColumn {
        NewPropertyColumn {
            path: keys.iter().map(|key| (*key).to_owned()).collect(),
            kind,
            bytes_max,
        }
    }

    #[test]
    fn a_malformed_column_is_refused_with_its_field() {
        let long = "x".repeat(KEY_CHARS_MAX + 1);
        let table = [
            (new(&["plan"], Text, None), None),
            (new(&["$set", "plan"], Text, Some(1)), None),
            (
                new(&["a", "b", "c", " d "], LowCardinality, Some(2_048)),
                None,
            ),
            (new(&["at"], DateTime64, None), None),
            (new(&[], Text, None), Some("path")),
            (new(&["a", "b", "c", "d", "e"], Text, None), Some("path")),
            (new(&["a", ""], Text, None), Some("path")),
            (new(&[&long], Text, None), Some("path")),
            (new(&["a\n"], Text, None), Some("path")),
            (new(&["a"], Text, Some(0)), Some("bytes_max")),
            (new(&["a"], Text, Some(2_049)), Some("bytes_max")),
            (new(&["a"], Int64, Some(8)), Some("bytes_max")),
        ];
        for (column, expected) in table {
            let case = format!("{column:?}");
            let refused = column.checked().err();
            let field = refused.and_then(|error| error.violation()?.field);
            assert_eq!(field.as_deref(), expected, "{case}");
        }
    }

    #[test]
    fn a_text_keeps_256_bytes_unless_more_are_asked_for_and_numbers_have_no_length() {
        for (kind, sent, expected) in [
            (Text, None, Some(256)),
            (LowCardinality, Some(9), Some(9)),
            (Int64, None, None),
        ] {
            let checked = new(&["a"], kind, sent).checked().unwrap();
            assert_eq!(checked.bytes_max, expected, "{kind:?}");
        }
    }

    #[test]
    fn a_property_has_one_column_of_a_type() {
        let table = [
            (
                vec![new(&["a"], Text, None), new(&["a"], Int64, None)],
                None,
            ),
            (
                vec![new(&["a"], Text, None), new(&["a", "a"], Text, None)],
                None,
            ),
            (
                vec![
                    new(&["b"], Text, None),
                    new(&["a"], Text, None),
                    new(&["a"], Text, Some(9)),
                ],
                Some(("columns__2__path", "unique")),
            ),
            (
                vec![new(&["a"], Text, None), new(&["a"], Int64, Some(9))],
                Some(("columns__1__bytes_max", "invalid_input")),
            ),
        ];
        for (columns, expected) in table {
            let case = format!("{columns:?}");
            let violation = checked(columns).err().and_then(|error| error.violation());
            let told = violation.map(|it| (it.field.unwrap_or_default(), it.code));
            let expected = expected.map(|(field, code)| (field.to_owned(), code));
            assert_eq!(told, expected, "{case}");
        }
    }
}
