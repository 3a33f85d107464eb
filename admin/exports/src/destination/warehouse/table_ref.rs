//! Statements on tables that are named in three parts, shared by services that take SQL.

use super::sql::Merge;
use super::statements::Statements;
use crate::destination::table::{Column, ColumnType, Layout};

/// Table: database, schema, name and layout.
#[derive(Clone, Debug)]
pub(crate) struct TableRef {
    /// Database, or catalog.
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) layout: &'static Layout,
}

/// SQL dialect of a service.
pub(crate) trait Dialect {
    /// Kind of the staging table, with a space behind it, if it has one.
    const STAGE_KIND: &str = "";
    /// Prefix of a column that MERGE sets.
    const BEFORE_SET: &str = "";
    /// Rows of the one parameter, each a `line`.
    const LINES: &str;

    /// Quotes a name.
    fn quoted(name: &str) -> String;

    /// Quoted name of a column.
    fn name(column: &str) -> String {
        Self::quoted(column)
    }

    /// SQL type of a column of this type.
    fn kind(&self, column_type: ColumnType) -> &'static str;

    /// Value of a column in a `line`.
    fn value(&self, column: Column) -> String;

    /// Statement that finds the schema.
    fn find(table_ref: &TableRef) -> String;
}

impl TableRef {
    fn qualified<D: Dialect>(&self, table: &str) -> String {
        let parts = [self.database.as_str(), &self.schema, table];
        parts.map(D::quoted).join(".")
    }

    /// Statements that bring rows into the table by way of a staging table of this name.
    pub(crate) fn statements<D: Dialect>(&self, dialect: &D, stage: &str) -> Statements {
        let (target, stage) = (self.qualified::<D>(&self.table), self.qualified::<D>(stage));
        let columns = self.layout.joined(|column| {
            let kind = dialect.kind(column.column_type);
            format!("{} {kind}", D::name(column.name))
        });
        let names = self.layout.joined(|column| D::name(column.name));
        let values = self.layout.joined(|column| dialect.value(column));
        let insert = format!(
            "INSERT INTO {stage} ({names}) SELECT {values} FROM {}",
            D::LINES
        );
        let merge = Merge {
            layout: self.layout,
            target: &target,
            stage: &stage,
            name: D::name,
            before_set: D::BEFORE_SET,
            before_qualify: "",
            extra_column: None,
        };
        Statements::of(&merge, &columns, D::STAGE_KIND, insert, D::find(self))
    }
}
