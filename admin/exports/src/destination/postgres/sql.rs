//! Statements as text. Names of the customer are quoted, values are handed over beside.

use super::server::{Dialect, Server};
use crate::destination::table::{Column, Holds, quoted_in};
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

impl Server {
    /// The table that rows go to.
    pub(super) fn target(&self) -> String {
        self.qualified(&self.table)
    }

    /// The names of its columns.
    pub(super) fn columns(&self) -> String {
        self.layout.joined(|column| quoted(column.name))
    }

    /// Those of its key.
    pub(super) fn key(&self) -> String {
        let names = self.layout.key.iter().map(|name| quoted(name));
        names.collect::<Vec<_>>().join(", ")
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

    pub(super) fn create_table(&self) -> String {
        let mut columns = self
            .layout
            .joined(|column| format!("{} {}", quoted(column.name), self.type_of(column)));
        // By which rows are found again. Redshift has no keys that it keeps.
        if self.dialect == Dialect::Postgres {
            columns += &format!(", PRIMARY KEY ({})", self.key());
        }
        format!("CREATE TABLE IF NOT EXISTS {} ({columns})", self.target())
    }

    /// The type of a column of a new table.
    pub(super) fn type_of(&self, column: Column) -> &'static str {
        match (self.dialect, column.holds) {
            (_, Holds::Integer) => "INTEGER",
            (_, Holds::Long) => "BIGINT",
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

    /// Rows that are older than what is there do not come; nothing to do where rows have no
    /// versions.
    pub(super) fn delete_older(&self) -> Option<String> {
        let kept = quoted(&self.table);
        let versions = self.layout.versions.iter().rev();
        // From the last one on: one that is equal leaves it to those behind it.
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

    /// Rows that are there already go before their successors come.
    pub(super) fn delete_known(&self) -> String {
        let (target, is_same) = (self.target(), self.is_same());
        format!("DELETE FROM {target} USING {STAGE} WHERE {is_same}")
    }

    /// Whether a row that comes is one that is there.
    fn is_same(&self) -> String {
        let kept = quoted(&self.table);
        let key = self.layout.columns.iter();
        let key = key.filter(|column| self.layout.is_key(**column));
        let same = key.map(|column| {
            let come = match column.holds {
                Holds::Integer | Holds::Long => self.number(STAGE, column.name),
                _ => format!("{STAGE}.{}", quoted(column.name)),
            };
            format!("{come} = {kept}.{}", quoted(column.name))
        });
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// A whole number; Redshift's come as texts.
    fn number(&self, of: &str, name: &str) -> String {
        let name = quoted(name);
        match self.dialect {
            Dialect::Redshift { .. } if of == STAGE => format!("CAST({of}.{name} AS BIGINT)"),
            _ => format!("{of}.{name}"),
        }
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
    use super::{STAGE, Server};
    use crate::destination::postgres::shape::Shape;

    /// A temporary table of the types that the table has.
    pub(in super::super) fn create_stage(server: &Server) -> String {
        let (target, columns) = (server.target(), server.columns());
        format!("CREATE TEMPORARY TABLE {STAGE} AS SELECT {columns} FROM {target} WITH NO DATA")
    }

    pub(in super::super) fn copy(server: &Server) -> String {
        format!("COPY pg_temp.{STAGE} ({}) FROM STDIN", server.columns())
    }

    /// Puts rows in, each key once, the last of it. With a unique index those that are there and
    /// differ are changed.
    pub(in super::super) fn insert(server: &Server, shape: &Shape) -> String {
        let (target, names, key) = (server.target(), server.columns(), server.key());
        let insert = format!(
            "INSERT INTO {target} AS kept ({names}) SELECT DISTINCT ON ({key}) {names} \
             FROM pg_temp.{STAGE} ORDER BY {key}, ctid DESC"
        );
        if !shape.has_unique_key {
            return insert;
        }
        let layout = server.layout;
        let others = layout.columns.iter().filter(|it| !layout.is_key(**it));
        let set = others.map(|column| {
            let name = super::quoted(column.name);
            format!("{name} = EXCLUDED.{name}")
        });
        let set = set.collect::<Vec<_>>().join(", ");
        format!(
            "{insert} ON CONFLICT ({key}) DO UPDATE SET {set} \
             WHERE ({}) IS DISTINCT FROM ({})",
            comparable("kept", server, shape),
            comparable("EXCLUDED", server, shape),
        )
    }

    /// A row to compare; `json` has no equality.
    fn comparable(of: &str, server: &Server, shape: &Shape) -> String {
        server.layout.joined(|column| {
            let text = if shape.is_of_type(column.name, "json") {
                "::text"
            } else {
                ""
            };
            format!("{of}.{}{text}", super::quoted(column.name))
        })
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
