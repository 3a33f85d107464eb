//! Builders of tables, primary keys and foreign keys.

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

/// Foreign key to `parent` with `ON DELETE CASCADE`: the row is deleted with its parent.
pub(super) fn cascade(column: &'static str, parent: &'static str) -> ForeignKeyCreateStatement {
    to_parent(column, parent, ForeignKeyAction::Cascade)
}

/// Foreign key to `parent` with `ON DELETE SET NULL`: null once the parent is deleted.
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
