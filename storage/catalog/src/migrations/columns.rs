//! Columns of tables, by type.

use sea_orm::sea_query::ColumnDef;

/// Integers of 64 bits.
pub(super) fn big_integer(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().not_null().take()
}

/// Integers of 64 bits, or null.
pub(super) fn big_integer_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().null().take()
}

/// Primary key that the database numbers.
pub(super) fn big_pk_auto(name: &'static str) -> ColumnDef {
    big_integer(name).auto_increment().primary_key().take()
}

/// Truth values.
pub(super) fn boolean(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).boolean().not_null().take()
}

/// Truth values, or null.
pub(super) fn boolean_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).boolean().null().take()
}

/// Integers of 32 bits.
pub(super) fn integer(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).integer().not_null().take()
}

/// Integers of 32 bits, or null.
pub(super) fn integer_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).integer().null().take()
}

/// JSON as text.
pub(super) fn json(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json().not_null().take()
}

/// JSON as text, or null.
pub(super) fn json_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json().null().take()
}

/// JSON in the database's own format.
pub(super) fn json_binary(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json_binary().not_null().take()
}

/// JSON in the database's own format, or null.
pub(super) fn json_binary_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).json_binary().null().take()
}

/// Primary key that is a UUID.
pub(super) fn pk_uuid(name: &'static str) -> ColumnDef {
    uuid(name).primary_key().take()
}

/// Integers of 16 bits.
pub(super) fn small_integer(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).small_integer().not_null().take()
}

/// Integers of 16 bits, or null.
pub(super) fn small_integer_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).small_integer().null().take()
}

/// Text.
pub(super) fn text(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().not_null().take()
}

/// Text, or null.
pub(super) fn text_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).text().null().take()
}

/// Text that no two rows have.
pub(super) fn text_uniq(name: &'static str) -> ColumnDef {
    text(name).unique_key().take()
}

/// UUIDs.
pub(super) fn uuid(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).uuid().not_null().take()
}

/// UUIDs, or null.
pub(super) fn uuid_null(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).uuid().null().take()
}

/// UUIDs that no two rows have.
pub(super) fn uuid_uniq(name: &'static str) -> ColumnDef {
    uuid(name).unique_key().take()
}
