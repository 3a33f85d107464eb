//! Statements of a run on services that take SQL.

use super::sql::Merge;

/// Statements of a run, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    /// Creates the table, if it is missing.
    pub(crate) create: String,
    /// Creates the staging table, empty.
    pub(crate) stage: String,
    /// Inserts rows into the staging table; its parameter is a JSON array of them.
    pub(crate) insert: String,
    /// Counts the rows in the staging table; rows of a request that was sent again may be there
    /// twice.
    pub(crate) count: String,
    /// Merges the staging table into the table.
    pub(crate) merge: String,
    /// Drops the staging table.
    pub(crate) drop: String,
    /// Finds the schema.
    pub(crate) find: String,
}

impl Statements {
    /// Creates the statements for tables of these columns. `kind` is the staging table's, with a
    /// space behind it, if it has one.
    pub(crate) fn of(
        merge: &Merge<'_>,
        columns: &str,
        kind: &str,
        insert: String,
        find: String,
    ) -> Self {
        let Merge { target, stage, .. } = merge;
        Self {
            create: format!("CREATE TABLE IF NOT EXISTS {target} ({columns})"),
            stage: format!("CREATE OR REPLACE {kind}TABLE {stage} ({columns})"),
            insert,
            count: format!("SELECT COUNT(*) FROM {stage}"),
            merge: merge.sql(),
            drop: format!("DROP TABLE IF EXISTS {stage}"),
            find,
        }
    }
}
