//! The table: found, made, checked.
//!
//! A customer may have made it, with types of their own and more columns than we fill. What
//! cannot work is refused before any row is read.

use super::server::{Dialect, Server};
use super::session::{Session, within};
use crate::destination::table::width::{Width, Widths};
use crate::destination::table::{Column, Holds};
use crate::error::ExportError;

/// A table as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape {
    columns: Vec<Found>,
    /// Whether the server keeps every key from being there twice.
    pub(super) has_unique_key: bool,
}

/// A column as it is.
#[derive(Clone, Debug)]
struct Found {
    name: String,
    data_type: String,
    /// Whether every row must have a value, and the server makes none up.
    needs_value: bool,
    /// The longest text.
    length_max: Option<usize>,
}

/// Finds the table, or makes it, and sees whether the rows fit into it.
pub(super) async fn prepare(session: &Session, server: &Server) -> Result<Shape, ExportError> {
    let mut shape = find(session, server).await?;
    if shape.columns.is_empty() {
        session.run(server, &server.create_table()).await?;
        shape = find(session, server).await?;
    }
    shape.check(server)?;
    // A right to make tables is needed once only.
    if !has_runs(session, server).await? {
        session.run(server, &server.create_runs()).await?;
    }
    Ok(shape)
}

/// The table as it is; without columns if there is none.
pub(super) async fn find(session: &Session, server: &Server) -> Result<Shape, ExportError> {
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
        Ok(Found {
            name: row.try_get(0)?,
            data_type: row.try_get(1)?,
            needs_value: nullable == "NO" && made == 0,
            length_max: length_max.and_then(|max| usize::try_from(max).ok()),
        })
    });
    let columns = columns
        .collect::<Result<_, tokio_postgres::Error>>()
        .map_err(|error| super::failure::of_statement(server, &error))?;
    Ok(Shape {
        columns,
        has_unique_key: has_unique_key(session, server).await?,
    })
}

async fn has_runs(session: &Session, server: &Server) -> Result<bool, ExportError> {
    let sql = format!("SELECT \"attempt\" FROM {} WHERE FALSE", server.runs());
    let found = session.client.query_typed(&sql, &[]);
    let found = within(server, server.limits.statement, found).await;
    Ok(found.is_ok())
}

/// Whether there is an index that an upsert can go by. Redshift keeps nothing unique.
async fn has_unique_key(session: &Session, server: &Server) -> Result<bool, ExportError> {
    if server.dialect != Dialect::Postgres {
        return Ok(false);
    }
    let mut key: Vec<_> = server.layout.key.iter().collect();
    key.sort_unstable();
    // Columns that are only included come behind those of the key.
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

impl Shape {
    /// Whether there is a table.
    pub(super) fn is_there(&self) -> bool {
        !self.columns.is_empty()
    }

    pub(super) fn is_of_type(&self, column: &str, data_type: &str) -> bool {
        self.found(column)
            .is_some_and(|found| found.data_type == data_type)
    }

    fn found(&self, column: &str) -> Option<&Found> {
        self.columns.iter().find(|found| found.name == column)
    }

    /// Whether the rows fit.
    pub(super) fn check(&self, server: &Server) -> Result<(), ExportError> {
        let table = format!("The table {}.{}", server.schema, server.table);
        let (columns, rows) = (server.layout.columns, server.layout.rows);
        if !self.is_there() {
            return Err(ExportError::hopeless(format!(
                "{table} is there, but not for the user."
            )));
        }
        let missing = columns
            .iter()
            .filter(|column| self.found(column.name).is_none());
        let missing: Vec<_> = missing.map(|column| column.name).collect();
        if !missing.is_empty() {
            return Err(ExportError::hopeless(format!(
                "{table} has other columns than {rows}: it has no {}. Add them, or name a table \
                 that does not exist, and it is made.",
                missing.join(", ")
            )));
        }
        for &column in columns {
            let found = self.found(column.name);
            if let Some(found) = found.filter(|found| !found.holds(column.holds)) {
                return Err(ExportError::hopeless(format!(
                    "{table} cannot hold {rows}: its column {} is of the type {}; {} is expected.",
                    column.name,
                    found.data_type,
                    server.type_of(column).to_lowercase(),
                )));
            }
        }
        let own = |found: &&Found| columns.iter().all(|column| column.name != found.name);
        match self
            .columns
            .iter()
            .filter(own)
            .find(|found| found.needs_value)
        {
            None => Ok(()),
            Some(found) => Err(ExportError::hopeless(format!(
                "{table} has a column {} that must have a value, and {rows} have none for it. \
                 Give it a default, or let it be null.",
                found.name
            ))),
        }
    }

    /// How wide its columns are.
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
            // What is parsed into SUPER comes through a column of this width, too.
            (Dialect::Redshift { .. }, max) => Width::Bytes(max.unwrap_or(REDSHIFT_BYTES_MAX)),
        }
    }
}

/// Redshift's longest VARCHAR.
const REDSHIFT_BYTES_MAX: usize = 65_535;

impl Found {
    /// Whether the type can hold what we have.
    fn holds(&self, holds: Holds) -> bool {
        let texts = ["character varying", "text", "character", "uuid", "inet"];
        let known: &[&str] = match holds {
            Holds::Text => &texts,
            Holds::Json => &["jsonb", "json", "text", "character varying", "super"],
            Holds::Integer => &["integer", "bigint", "numeric"],
            Holds::Long => &["bigint", "numeric"],
            Holds::Time => &["timestamp with time zone", "timestamp without time zone"],
        };
        known.contains(&self.data_type.as_str())
    }
}
