//! Parts of the tables.

use sea_orm::sea_query::{
    ColumnDef, ForeignKey, ForeignKeyAction, ForeignKeyCreateStatement, Index,
    IndexCreateStatement, Table, TableCreateStatement,
};

/// Table with its columns, in their order.
pub(super) fn table(
    name: &'static str,
    columns: impl IntoIterator<Item = ColumnDef>,
) -> TableCreateStatement {
    let mut table = Table::create();
    table.table(name);
    for column in columns {
        table.col(column);
    }
    table
}

/// Primary key of several columns.
pub(super) fn primary_key(columns: &[&'static str]) -> IndexCreateStatement {
    let mut key = Index::create();
    for column in columns {
        key.col(*column);
    }
    key
}

/// Key to a row of `parent`, which takes the row along when it is deleted.
pub(super) fn cascade(column: &'static str, parent: &'static str) -> ForeignKeyCreateStatement {
    to_parent(column, parent, ForeignKeyAction::Cascade)
}

/// Key to a row of `parent`, which becomes null when that one is deleted.
pub(super) fn set_null(column: &'static str, parent: &'static str) -> ForeignKeyCreateStatement {
    to_parent(column, parent, ForeignKeyAction::SetNull)
}

fn to_parent(
    column: &'static str,
    parent: &'static str,
    on_delete: ForeignKeyAction,
) -> ForeignKeyCreateStatement {
    ForeignKey::create()
        .from_col(column)
        .to(parent, "id")
        .on_delete(on_delete)
        .take()
}
