//! Tables that statements name in three parts, in services that take SQL: what their statements
//! have in common.

use super::engine::Texts;
use super::sql::Merge;
use crate::destination::table::{Column, Holds, Layout};

/// Where a table is, and what it is made of.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The database, or catalog.
    pub(crate) database: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) layout: &'static Layout,
}

/// How a service writes SQL.
pub(crate) trait Dialect {
    /// The kind of the table beside, with a space behind it, if it has one.
    const STAGE_KIND: &str = "";
    /// What stands before a column that MERGE sets.
    const BEFORE_SET: &str = "";
    /// The rows of the one parameter, each a `line`.
    const LINES: &str;

    /// A name between quotes.
    fn quoted(name: &str) -> String;

    /// What a column is called, between quotes.
    fn name(column: &str) -> String {
        Self::quoted(column)
    }

    /// The type of a column that holds this.
    fn kind(&self, holds: Holds) -> &'static str;

    /// The value of a column in a `line`.
    fn value(&self, column: Column) -> String;

    /// Finds the schema.
    fn find(place: &Place) -> String;
}

impl Place {
    fn qualified<D: Dialect>(&self, table: &str) -> String {
        let parts = [self.database.as_str(), &self.schema, table];
        parts.map(D::quoted).join(".")
    }

    /// The statements that bring rows by a table of this name beside it.
    pub(crate) fn texts<D: Dialect>(&self, dialect: &D, stage: &str) -> Texts {
        let (target, stage) = (self.qualified::<D>(&self.table), self.qualified::<D>(stage));
        let columns = self.layout.joined(|column| {
            let kind = dialect.kind(column.holds);
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
            further: None,
        };
        Texts::of(&merge, &columns, D::STAGE_KIND, insert, D::find(self))
    }
}
