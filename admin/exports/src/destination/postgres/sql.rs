//! Statements as text. Names of the customer are quoted, values are handed over beside.

use super::server::{Dialect, Server};
use crate::destination::table::{COLUMNS, Column, Holds, quoted_in};
use uuid::Uuid;

/// The longest name in bytes; PostgreSQL cuts longer ones off without a word of error.
const NAME_BYTES_MAX: usize = 63;
/// What follows the table's name in that of the table of runs.
const RUNS: &str = "_millrace_runs";
/// The same of the table that a test makes.
const SCRATCH: &str = "_millrace_test";
/// The temporary table that rows come into.
pub(super) const STAGE: &str = "millrace_stage";

/// A name in quotes.
pub(super) fn quoted(name: &str) -> String {
    quoted_in('"', name)
}

/// The columns' names in quotes, with something before each.
pub(super) fn columns(before: &str) -> String {
    let names = COLUMNS
        .iter()
        .map(|column| format!("{before}{}", quoted(column.name)));
    names.collect::<Vec<_>>().join(", ")
}

impl Server {
    /// The table of events.
    pub(super) fn events(&self) -> String {
        self.qualified(&self.table)
    }

    /// The table of runs.
    pub(super) fn runs(&self) -> String {
        self.qualified(&beside(&self.table, RUNS))
    }

    /// The table that a test makes.
    pub(super) fn scratch(&self) -> String {
        self.qualified(&beside(&self.table, SCRATCH))
    }

    fn qualified(&self, table: &str) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(table))
    }

    pub(super) fn create_events(&self) -> String {
        let columns = COLUMNS.iter().map(|column| {
            let unique = match (self.dialect, column.name) {
                // By which rows are found again. Redshift has no keys that it keeps.
                (Dialect::Postgres, "uuid") => " PRIMARY KEY",
                _ => "",
            };
            let name = quoted(column.name);
            format!("{name} {}{unique}", self.type_of(*column))
        });
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("CREATE TABLE IF NOT EXISTS {} ({columns})", self.events())
    }

    /// The type of a column of a new table.
    pub(super) fn type_of(&self, column: Column) -> &'static str {
        match (self.dialect, column.holds) {
            (_, Holds::Integer) => "INTEGER",
            (_, Holds::Time) => "TIMESTAMP WITH TIME ZONE",
            (Dialect::Postgres, Holds::Text) => "VARCHAR(200)",
            (Dialect::Postgres, Holds::Json) => "JSONB",
            (Dialect::Redshift { super_type: true }, Holds::Json) => "SUPER",
            // Bytes; without a number it would be 256.
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

    /// Whether the try `$2` of the run `$1` was committed.
    pub(super) fn find_run(&self) -> String {
        let runs = self.runs();
        format!("SELECT 1 FROM {runs} WHERE \"run\" = $1 AND \"attempt\" = $2")
    }

    /// Rows that are there already go before their successors come.
    pub(super) fn delete_known(&self) -> String {
        let events = self.events();
        format!("DELETE FROM {events} WHERE \"uuid\" IN (SELECT \"uuid\" FROM {STAGE})")
    }
}

/// A name beside that of a table, cut where it would be too long; then a part of a digest keeps
/// it apart from those of other tables.
fn beside(table: &str, suffix: &str) -> String {
    let name = format!("{table}{suffix}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    let digest = Uuid::new_v5(&Uuid::NAMESPACE_OID, table.as_bytes())
        .simple()
        .to_string();
    let digest = digest.get(..8).unwrap_or_default();
    let room = NAME_BYTES_MAX - suffix.len() - digest.len() - 1;
    let kept = table
        .get(..table.floor_char_boundary(room))
        .unwrap_or_default();
    format!("{kept}_{digest}{suffix}")
}

/// PostgreSQL's own.
pub(super) mod own {
    use super::{STAGE, Server, columns};
    use crate::destination::postgres::shape::Shape;
    use crate::destination::table::COLUMNS;

    /// A temporary table of the types that the table has.
    pub(in super::super) fn create_stage(server: &Server) -> String {
        let (events, columns) = (server.events(), columns(""));
        format!("CREATE TEMPORARY TABLE {STAGE} AS SELECT {columns} FROM {events} WITH NO DATA")
    }

    pub(in super::super) fn copy() -> String {
        format!("COPY pg_temp.{STAGE} ({}) FROM STDIN", columns(""))
    }

    /// Puts rows in, each uuid once, the last of it. With a unique index those that are there and
    /// differ are changed.
    pub(in super::super) fn insert(server: &Server, shape: &Shape) -> String {
        let (events, names) = (server.events(), columns(""));
        let insert = format!(
            "INSERT INTO {events} AS kept ({names}) SELECT DISTINCT ON (\"uuid\") {names} \
             FROM pg_temp.{STAGE} ORDER BY \"uuid\", ctid DESC"
        );
        if !shape.has_unique_uuid {
            return insert;
        }
        let others = COLUMNS.iter().filter(|column| column.name != "uuid");
        let set = others.map(|column| {
            let name = super::quoted(column.name);
            format!("{name} = EXCLUDED.{name}")
        });
        let set = set.collect::<Vec<_>>().join(", ");
        format!(
            "{insert} ON CONFLICT (\"uuid\") DO UPDATE SET {set} \
             WHERE ({}) IS DISTINCT FROM ({})",
            comparable("kept", shape),
            comparable("EXCLUDED", shape),
        )
    }

    /// A row to compare; `json` has no equality.
    fn comparable(of: &str, shape: &Shape) -> String {
        let columns = COLUMNS.iter().map(|column| {
            let text = if shape.is_of_type(column.name, "json") {
                "::text"
            } else {
                ""
            };
            format!("{of}.{}{text}", super::quoted(column.name))
        });
        columns.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::{NAME_BYTES_MAX, RUNS, beside, quoted};

    #[test]
    fn names_are_quoted() {
        assert_eq!(
            quoted(r#"a"; DROP TABLE x; --"#),
            r#""a""; DROP TABLE x; --""#
        );
    }

    #[test]
    fn names_beside_a_table_are_never_its_own_and_never_another_tables() {
        assert_eq!(beside("events", RUNS), "events_millrace_runs");
        let long = "é".repeat(31);
        let longer = format!("{long}x");
        for table in [&long, &longer] {
            let name = beside(table, RUNS);
            assert!(name.len() <= NAME_BYTES_MAX, "{name}");
            assert!(name.ends_with(RUNS), "{name}");
        }
        assert_ne!(beside(&long, RUNS), beside(&longer, RUNS));
    }
}
