//! SQL statements. Customers' names are quoted, values are parameters.

use super::server::{Dialect, Server};
use crate::destination::table::{Column, ColumnType, quoted_in};
use uuid::Uuid;

/// Longest name in bytes; PostgreSQL truncates longer ones without an error.
const NAME_BYTES_MAX: usize = 63;
/// Suffix of the table of runs.
const RUNS: &str = "_millrace_runs";
/// Suffix of the table that a test creates, before the test's id.
const SCRATCH: &str = "_millrace_test_";
/// Temporary table that rows arrive in.
pub(super) const STAGE: &str = "millrace_stage";

/// Quotes a name.
pub(super) fn quoted(name: &str) -> String {
    quoted_in('"', name)
}

impl Server {
    /// Qualified name of the table that rows go to.
    pub(super) fn target(&self) -> String {
        self.qualified(&self.table)
    }

    /// Names of the columns.
    pub(super) fn columns(&self) -> String {
        self.layout.joined(|column| quoted(column.name))
    }

    /// Names of the key's columns.
    pub(super) fn key(&self) -> String {
        let names = self.layout.key.iter().map(|name| quoted(name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Qualified name of the table of runs.
    pub(super) fn runs(&self) -> String {
        self.qualified(&sibling_name(&self.table, RUNS))
    }

    /// Qualified name of the table that a test creates.
    pub(super) fn scratch(&self) -> String {
        let suffix = format!("{SCRATCH}{}", self.test_id.simple());
        self.qualified(&sibling_name(&self.table, &suffix))
    }

    fn qualified(&self, table: &str) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(table))
    }

    pub(super) fn create_table(&self) -> String {
        let mut columns = self
            .layout
            .joined(|column| format!("{} {}", quoted(column.name), self.type_of(column)));
        // The key by which rows are found again. Redshift does not enforce keys.
        if self.dialect == Dialect::Postgres {
            columns += &format!(", PRIMARY KEY ({})", self.key());
        }
        format!("CREATE TABLE IF NOT EXISTS {} ({columns})", self.target())
    }

    /// SQL type of a column of a new table.
    pub(super) fn type_of(&self, column: Column) -> &'static str {
        match (self.dialect, column.column_type) {
            (_, ColumnType::Integer) => "INTEGER",
            (_, ColumnType::Long) => "BIGINT",
            (_, ColumnType::Time) => "TIMESTAMP WITH TIME ZONE",
            (Dialect::Postgres, ColumnType::Text) => "VARCHAR(200)",
            (Dialect::Postgres, ColumnType::Json) => "JSONB",
            (Dialect::Redshift { super_type: true }, ColumnType::Json) => "SUPER",
            // The length is in bytes; its default would be 256.
            (Dialect::Redshift { .. }, _) => "VARCHAR(65535)",
        }
    }

    pub(super) fn create_runs(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\"run\" VARCHAR(300), \"attempt\" VARCHAR(36), \
             \"rows\" BIGINT, \"finished_at\" TIMESTAMP WITH TIME ZONE)",
            self.runs()
        )
    }

    pub(super) fn delete_run(&self) -> String {
        format!("DELETE FROM {} WHERE \"run\" = $1", self.runs())
    }

    pub(super) fn insert_run(&self, rows: u64) -> String {
        let now = match self.dialect {
            Dialect::Postgres => "CURRENT_TIMESTAMP",
            Dialect::Redshift { .. } => "GETDATE()",
        };
        let columns = "\"run\", \"attempt\", \"rows\", \"finished_at\"";
        format!(
            "INSERT INTO {} ({columns}) VALUES ($1, $2, {rows}, {now})",
            self.runs()
        )
    }

    /// Query that finds the attempt `$2` of the run `$1`, if it was committed.
    pub(super) fn find_run(&self) -> String {
        let runs = self.runs();
        format!("SELECT 1 FROM {runs} WHERE \"run\" = $1 AND \"attempt\" = $2")
    }

    /// Statement that drops arriving rows that are older than the stored ones; none where rows have
    /// no versions.
    pub(super) fn delete_older(&self) -> Option<String> {
        let kept = quoted(&self.table);
        let versions = self.layout.versions.iter().rev();
        // Built from the last version on: an equal version leaves the decision to the versions
        // behind it.
        let is_older = versions.fold(None, |behind: Option<String>, name| {
            let (come, kept) = (self.number(STAGE, name), self.number(&kept, name));
            let is_lower = format!("{come} < {kept}");
            Some(match behind {
                None => is_lower,
                Some(behind) => format!("({is_lower} OR ({come} = {kept} AND {behind}))"),
            })
        })?;
        let (target, is_same) = (self.target(), self.is_same());
        Some(format!(
            "DELETE FROM {STAGE} USING {target} WHERE {is_same} AND {is_older}"
        ))
    }

    /// Statement that deletes the stored versions of arriving rows.
    pub(super) fn delete_known(&self) -> String {
        let (target, is_same) = (self.target(), self.is_same());
        format!("DELETE FROM {target} USING {STAGE} WHERE {is_same}")
    }

    /// Condition that an arriving row and a stored one have the same key.
    fn is_same(&self) -> String {
        let kept = quoted(&self.table);
        let key = self.layout.columns.iter();
        let key = key.filter(|column| self.layout.is_key(**column));
        let same = key.map(|column| {
            let come = match column.column_type {
                ColumnType::Integer | ColumnType::Long => self.number(STAGE, column.name),
                _ => format!("{STAGE}.{}", quoted(column.name)),
            };
            format!("{come} = {kept}.{}", quoted(column.name))
        });
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// Integer column; Redshift's arriving ones are texts.
    fn number(&self, of: &str, name: &str) -> String {
        let name = quoted(name);
        match self.dialect {
            Dialect::Redshift { .. } if of == STAGE => format!("CAST({of}.{name} AS BIGINT)"),
            _ => format!("{of}.{name}"),
        }
    }
}

/// Name of a table next to another one, truncated where it would be too long; then a part of a
/// digest keeps it apart from those of other tables.
fn sibling_name(table: &str, suffix: &str) -> String {
    let name = format!("{table}{suffix}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, table.as_bytes())
        .simple()
        .to_string();
    let digest = digest.get(..8).unwrap_or_default();
    let space = NAME_BYTES_MAX.saturating_sub(suffix.len() + digest.len() + 1);
    let kept = table
        .get(..table.floor_char_boundary(space))
        .unwrap_or_default();
    format!("{kept}_{digest}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES_MAX, RUNS, SCRATCH, quoted, sibling_name};
    use uuid::Uuid;

    #[test]
    fn names_are_quoted() {
        assert_eq!(
            quoted(r#"a"; DROP TABLE x; --"#),
            r#""a""; DROP TABLE x; --""#
        );
    }

    #[test]
    fn sibling_names_differ_from_all_tables_and_from_each_other() {
        assert_eq!(sibling_name("events", RUNS), "events_millrace_runs");
        let long = "é".repeat(31);
        let longer = format!("{long}x");
        let scratch = format!("{SCRATCH}{}", Uuid::nil().simple());
        for (table, suffix) in [(&long, RUNS), (&longer, RUNS), (&longer, scratch.as_str())] {
            let name = sibling_name(table, suffix);
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.ends_with(suffix), "{name}");
        }
        assert_ne!(sibling_name(&long, RUNS), sibling_name(&longer, RUNS));
    }
}
