//! Finds, creates and checks the table.
//!
//! A customer may have created it, with types of their own and more columns than we fill. A table
//! that cannot take the rows is refused before any row is read.

use super::server::{Dialect, Server};
use super::session::Session;
use crate::destination::table::width::{Width, Widths};
use crate::destination::table::{Column, ColumnType};
use crate::error::ExportError;

/// Schema of a table as it was found.
#[derive(Clone, Debug, Default)]
pub(super) struct TableSchema {
    columns: Vec<FoundColumn>,
    /// True if the server ensures that each key is there once.
    pub(super) has_unique_key: bool,
}

/// Column as it was found.
#[derive(Clone, Debug)]
struct FoundColumn {
    name: String,
    data_type: String,
    /// True if every row must have a value, and the column has no default.
    needs_value: bool,
    /// Longest text.
    length_max: Option<usize>,
}

/// Finds the table, or creates it, and checks whether the rows fit into it.
pub(super) async fn prepare(
    session: &Session,
    server: &Server,
) -> Result<TableSchema, ExportError> {
    let mut table_schema = find(session, server).await?;
    if table_schema.columns.is_empty() {
        session.run(server, &server.create_table()).await?;
        table_schema = find(session, server).await?;
    }
    table_schema.check(server)?;
    // The right to create tables is needed only once.
    if !has_runs(session, server).await? {
        session.run(server, &server.create_runs()).await?;
    }
    Ok(table_schema)
}

/// Finds the schema of the table; without columns if there is no table.
pub(super) async fn find(session: &Session, server: &Server) -> Result<TableSchema, ExportError> {
    let made = match server.dialect {
        Dialect::Postgres => {
            "column_default IS NOT NULL OR is_identity = 'YES' OR is_generated = 'ALWAYS'"
        }
        Dialect::Redshift { .. } => "column_default IS NOT NULL",
    };
    let sql = format!(
        "SELECT column_name::text, data_type::text, is_nullable::text, \
         (CASE WHEN {made} THEN 1 ELSE 0 END)::integer, character_maximum_length::integer \
         FROM information_schema.columns WHERE table_schema::text = $1 AND table_name::text = $2"
    );
    let rows = session
        .query(server, &sql, &[&server.schema, &server.table])
        .await?;
    let columns = rows.iter().map(|row| {
        let nullable: &str = row.try_get(2)?;
        let made: i32 = row.try_get(3)?;
        let length_max: Option<i32> = row.try_get(4)?;
        Ok(FoundColumn {
            name: row.try_get(0)?,
            data_type: row.try_get(1)?,
            needs_value: nullable == "NO" && made == 0,
            length_max: length_max.and_then(|max| usize::try_from(max).ok()),
        })
    });
    let columns = columns
        .collect::<Result<_, tokio_postgres::Error>>()
        .map_err(|error| super::failure::of_statement(server, &error))?;
    Ok(TableSchema {
        columns,
        has_unique_key: has_unique_key(session, server).await?,
    })
}

async fn has_runs(session: &Session, server: &Server) -> Result<bool, ExportError> {
    let sql = format!("SELECT \"attempt\" FROM {} WHERE FALSE", server.runs());
    Ok(session.query(server, &sql, &[]).await.is_ok())
}

/// Returns true if there is a unique index for an upsert. Redshift does not enforce uniqueness.
async fn has_unique_key(session: &Session, server: &Server) -> Result<bool, ExportError> {
    if server.dialect != Dialect::Postgres {
        return Ok(false);
    }
    let mut key: Vec<_> = server.layout.key.iter().collect();
    key.sort_unstable();
    // Included columns come behind those of the key.
    let sql = format!(
        "SELECT 1 FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = $2 \
         AND i.indisunique AND i.indisvalid AND i.indimmediate \
         AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = {count} \
         AND (SELECT string_agg(a.attname, ' ' ORDER BY a.attname) \
         FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid \
         AND a.attnum = ANY((i.indkey::int2[])[0:{count} - 1])) = '{names}'",
        count = key.len(),
        names = key.into_iter().copied().collect::<Vec<_>>().join(" "),
    );
    let found = session
        .query(server, &sql, &[&server.schema, &server.table])
        .await?;
    Ok(!found.is_empty())
}

impl TableSchema {
    /// Returns true if there is a table.
    pub(super) fn is_there(&self) -> bool {
        !self.columns.is_empty()
    }

    pub(super) fn is_of_type(&self, column: &str, data_type: &str) -> bool {
        self.found(column)
            .is_some_and(|found| found.data_type == data_type)
    }

    fn found(&self, column: &str) -> Option<&FoundColumn> {
        self.columns.iter().find(|found| found.name == column)
    }

    /// Checks that the rows fit into the table.
    pub(super) fn check(&self, server: &Server) -> Result<(), ExportError> {
        let table = format!("The table {}.{}", server.schema, server.table);
        let (columns, rows) = (server.layout.columns, server.layout.rows);
        if !self.is_there() {
            return Err(ExportError::permanent(format!(
                "{table} exists, but the user has no rights on it. Grant them."
            )));
        }
        let missing = columns
            .iter()
            .filter(|column| self.found(column.name).is_none());
        let missing: Vec<_> = missing.map(|column| column.name).collect();
        if !missing.is_empty() {
            return Err(ExportError::permanent(format!(
                "{table} has other columns than {rows}: it has no {}. Add them, or name a table \
                 that does not exist, which is then created.",
                missing.join(", ")
            )));
        }
        for &column in columns {
            let found = self.found(column.name);
            if let Some(found) = found.filter(|found| !found.can_hold(column.column_type)) {
                return Err(ExportError::permanent(format!(
                    "{table} cannot hold {rows}: its column {} is of the type {}; {} is expected.",
                    column.name,
                    found.data_type,
                    server.type_of(column).to_lowercase(),
                )));
            }
        }
        let is_own = |found: &&FoundColumn| columns.iter().all(|column| column.name != found.name);
        match self
            .columns
            .iter()
            .filter(is_own)
            .find(|found| found.needs_value)
        {
            None => Ok(()),
            Some(found) => Err(ExportError::permanent(format!(
                "{table} has a column {} that must have a value, and {rows} have none for it. \
                 Give it a default, or let it be null.",
                found.name
            ))),
        }
    }

    /// Widths of the columns.
    pub(super) fn widths(&self, server: &Server) -> Widths {
        let columns = server.layout.columns.iter();
        columns.map(|column| self.width(server, *column)).collect()
    }

    fn width(&self, server: &Server, column: Column) -> Width {
        let Some(found) = self.found(column.name) else {
            return Width::Any;
        };
        match (server.dialect, found.length_max) {
            (Dialect::Postgres, None) => Width::Any,
            (Dialect::Postgres, Some(max)) => Width::Chars(max),
            // JSON for SUPER passes through a column of this width, too.
            (Dialect::Redshift { .. }, max) => Width::Bytes(max.unwrap_or(REDSHIFT_BYTES_MAX)),
        }
    }
}

/// Longest VARCHAR of Redshift in bytes.
const REDSHIFT_BYTES_MAX: usize = 65_535;

impl FoundColumn {
    /// Returns true if the column's type can hold values of this type.
    fn can_hold(&self, column_type: ColumnType) -> bool {
        let texts = ["character varying", "text", "character", "uuid", "inet"];
        let known: &[&str] = match column_type {
            ColumnType::Text => &texts,
            ColumnType::Json => &["jsonb", "json", "text", "character varying", "super"],
            ColumnType::Integer => &["integer", "bigint", "numeric"],
            ColumnType::Long => &["bigint", "numeric"],
            ColumnType::Time => &["timestamp with time zone", "timestamp without time zone"],
        };
        known.contains(&self.data_type.as_str())
    }
}
