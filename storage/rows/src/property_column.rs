//! Property columns: columns of `events` that hold one property each.
//!
//! A column belongs to one project, or to all, and never gets another property: its value is a
//! function of the row alone, the same whoever computes it. Shippers do, from the text of
//! `properties`, and so does ClickHouse, by the column's default, for rows that came without.
//!
//! | Type | Value | Anything else |
//! |---|---|---|
//! | `String`, `LowCardinality` | a text of at most `bytes_max` bytes, without escapes | empty |
//! | `Int64` | a number without fraction and exponent, of 64 bits | `NULL` |
//! | `Float64` | a number within a double | `NULL` |
//! | `Bool` | `true`, `false` | `NULL` |
//! | `DateTime64` | a text as in RFC 3339, `2026-11-29T10:00:00.5+01:00`, of the years 1971 to 2298; what follows the microseconds is cut | `NULL` |
//!
//! A property that is missing, and one of another project, is anything else. If an object has a key
//! twice, the first one counts, as it does for ClickHouse's functions.

use crate::ProjectId;

/// Type of a property column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PropertyType {
    /// Texts.
    String,
    /// Texts that are few, with a dictionary.
    LowCardinality,
    /// Whole numbers.
    Int64,
    /// Numbers.
    Float64,
    /// Truth values.
    Bool,
    /// Times in UTC, in microseconds.
    DateTime64,
}

impl PropertyType {
    /// Every type.
    pub const ALL: [Self; 6] = [
        Self::String,
        Self::LowCardinality,
        Self::Int64,
        Self::Float64,
        Self::Bool,
        Self::DateTime64,
    ];

    /// Name of the type for people and in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::LowCardinality => "LowCardinality",
            Self::Int64 => "Int64",
            Self::Float64 => "Float64",
            Self::Bool => "Bool",
            Self::DateTime64 => "DateTime64",
        }
    }

    /// Type of the column in ClickHouse.
    #[must_use]
    pub const fn clickhouse_name(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::LowCardinality => "LowCardinality(String)",
            Self::Int64 => "Nullable(Int64)",
            Self::Float64 => "Nullable(Float64)",
            Self::Bool => "Nullable(Bool)",
            Self::DateTime64 => "Nullable(DateTime64(6, 'UTC'))",
        }
    }

    /// Returns true for texts, whose length is bounded.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::String | Self::LowCardinality)
    }

    /// Most bytes that a value takes in a row, if texts have at most `bytes_max`.
    #[must_use]
    pub const fn row_bytes(self, bytes_max: u32) -> u32 {
        match self {
            Self::String | Self::LowCardinality => bytes_max,
            Self::Int64 | Self::Float64 | Self::DateTime64 => 9,
            Self::Bool => 2,
        }
    }
}

/// Column of `events` that holds one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PropertyColumn {
    /// Number of the column; never used again.
    pub number: i64,
    /// Project whose rows have values; `None`: those of all.
    pub team_id: Option<ProjectId>,
    /// Keys that lead to the property, from those of `properties` on.
    pub path: Vec<String>,
    /// Type of the column.
    pub kind: PropertyType,
    /// Longest text that is kept, in bytes; 0 for other types.
    pub bytes_max: u32,
}

impl PropertyColumn {
    /// Beginning of the names of property columns.
    pub const NAME_START: &'static str = "property_";

    /// Name of the column in `events`. It tells nothing of the property: other projects see it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", Self::NAME_START, self.number)
    }

    /// Number of the column of a name; `None` if it is no property column.
    #[must_use]
    pub fn number_of(name: &str) -> Option<i64> {
        let digits = name.strip_prefix(Self::NAME_START)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        // Leading zeros would give one column two names.
        (format!("{}{number}", Self::NAME_START) == name).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_found_by_its_name_and_nothing_else_is() {
        let column = PropertyColumn {
            number: 17,
            team_id: None,
            path: vec!["$browser".to_owned()],
            kind: PropertyType::String,
            bytes_max: 64,
        };
        assert_eq!(PropertyColumn::number_of(&column.name()), Some(17));
        for name in [
            "",
            "property_",
            "property_017",
            "property_+17",
            "property_17a",
            "property_99999999999999999999",
            "properties",
            "Property_17",
        ] {
            assert_eq!(PropertyColumn::number_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_row_has_a_byte_for_null_beside_a_number_and_no_more_of_a_text_than_allowed() {
        let bytes = PropertyType::ALL.map(|kind| kind.row_bytes(300));
        assert_eq!(bytes, [300, 300, 9, 9, 2, 9]);
    }
}
