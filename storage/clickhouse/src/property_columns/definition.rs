//! Definitions of property columns in SQL.
//!
//! A column's DEFAULT computes what shippers compute ([`PropertyColumn`]), for rows that come
//! without a value and for parts that were written before the column was there. It is a function of
//! the row alone, so it differs neither between replicas nor between two tries of one insert, and
//! it fails for no row: an error would tell a project of rows of others.

use crate::settings::{quoted_name, quoted_text};
use millrace_rows::{PropertyColumn, PropertyType};

/// Text of a time as in RFC 3339, of the years 1971 to 2298, to whose ends all offsets stay within
/// what ClickHouse can keep.
pub(super) const TIME: &str = "^(197[1-9]|19[89][0-9]|2[01][0-9][0-9]|22[0-8][0-9]|229[0-8])\
     -(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\
     ([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

/// Definition of a column in a statement that adds it.
pub(super) fn definition(column: &PropertyColumn) -> String {
    format!(
        "{name} {kind} DEFAULT {value} COMMENT {comment} CODEC(ZSTD(1))",
        name = quoted_name(&column.name()),
        kind = column.kind.clickhouse_name(),
        value = value(column),
        comment = quoted_text(&comment(column)),
    )
}

/// Comment of a column: it names the property, for people, and all that a value depends on, so that
/// a column of another definition is known by it.
pub(super) fn comment(column: &PropertyColumn) -> String {
    let path: Vec<String> = column.path.iter().map(|key| quoted_text(key)).collect();
    let (kind, path) = (column.kind.name(), path.join(", "));
    let owner = match column.team_id {
        Some(id) => format!("project {id}"),
        None => "all projects".to_owned(),
    };
    match column.kind.is_text() {
        true => format!(
            "{path} of {owner} as {kind} of {} bytes at most",
            column.bytes_max
        ),
        false => format!("{path} of {owner} as {kind}"),
    }
}

/// Value of a column by the other columns of its row.
fn value(column: &PropertyColumn) -> String {
    let path: Vec<String> = column.path.iter().map(|key| quoted_text(key)).collect();
    let of = format!("(properties, {})", path.join(", "));
    let text = format!("JSONExtractString{of}");
    let (fits, value, otherwise) = match column.kind {
        PropertyType::String | PropertyType::LowCardinality => (
            format!(
                "JSONType{of} = 'String' AND length({text}) <= {}",
                column.bytes_max
            ),
            text,
            "''",
        ),
        PropertyType::Int64 => (
            format!("JSONType{of} = 'Int64'"),
            format!("JSONExtractInt{of}"),
            "NULL",
        ),
        PropertyType::Float64 => (
            format!("JSONType{of} IN ('Int64', 'UInt64', 'Double')"),
            format!("JSONExtractFloat{of}"),
            "NULL",
        ),
        PropertyType::Bool => (
            format!("JSONType{of} = 'Bool'"),
            format!("JSONExtractBool{of}"),
            "NULL",
        ),
        PropertyType::DateTime64 => {
            let day = format!("substring({text}, 1, 10)");
            let fits = format!(
                "JSONType{of} = 'String' AND match({text}, {pattern}) \
                 AND toString(toDate32OrNull({day})) = {day}",
                pattern = quoted_text(TIME),
            );
            let value = format!("parseDateTime64BestEffortOrNull({text}, 6, 'UTC')");
            (fits, value, "NULL")
        }
    };
    let owner = match column.team_id {
        Some(id) => format!("team_id = {id} AND "),
        None => String::new(),
    };
    format!("if({owner}{fits}, {value}, {otherwise})")
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::ProjectId;

    fn column(path: &[&str], kind: PropertyType, team_id: Option<i64>) -> PropertyColumn {
        PropertyColumn {
            number: 3,
            team_id: team_id.map(ProjectId),
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            kind,
            bytes_max: if kind.is_text() { 64 } else { 0 },
        }
    }

    #[test]
    fn a_definition_has_the_property_of_its_owner_alone() {
        let table = [
            (
                column(&["$set", "a'b"], PropertyType::LowCardinality, Some(7)),
                "`property_3` LowCardinality(String) DEFAULT if(team_id = 7 AND \
                 JSONType(properties, '$set', 'a\\'b') = 'String' AND \
                 length(JSONExtractString(properties, '$set', 'a\\'b')) <= 64, \
                 JSONExtractString(properties, '$set', 'a\\'b'), '') \
                 COMMENT '\\'$set\\', \\'a\\\\\\'b\\' of project 7 as LowCardinality of 64 bytes at most' \
                 CODEC(ZSTD(1))",
            ),
            (
                column(&["age"], PropertyType::Int64, None),
                "`property_3` Nullable(Int64) DEFAULT if(JSONType(properties, 'age') = 'Int64', \
                 JSONExtractInt(properties, 'age'), NULL) \
                 COMMENT '\\'age\\' of all projects as Int64' CODEC(ZSTD(1))",
            ),
        ];
        for (column, expected) in table {
            assert_eq!(definition(&column), expected);
        }
    }

    #[test]
    fn columns_whose_values_differ_have_other_comments() {
        let base = column(&["a"], PropertyType::String, Some(1));
        let mut others = vec![
            column(&["a", "a"], PropertyType::String, Some(1)),
            column(&["a', 'a"], PropertyType::String, Some(1)),
            column(&["a"], PropertyType::LowCardinality, Some(1)),
            column(&["a"], PropertyType::String, Some(2)),
            column(&["a"], PropertyType::String, None),
            PropertyColumn {
                bytes_max: 65,
                ..base.clone()
            },
        ];
        others.push(base);
        let mut comments: Vec<String> = others.iter().map(comment).collect();
        comments.sort_unstable();
        comments.dedup();
        assert_eq!(comments.len(), others.len());
    }
}
