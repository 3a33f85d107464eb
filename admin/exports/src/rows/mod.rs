//! The statements that read a window, the forms rows come in, how they are counted.
//!
//! | Module | Holds |
//! |---|---|
//! | `reading` | [`Reading`]: what of a window is read, as statements |
//! | `columns` | what stands in a row, by form |
//! | `persons` | rows of persons and groups |
//! | `settings` | how ClickHouse is to write them, and what a statement may cost |
//! | `failure`, `error_codes` | what an error of ClickHouse means for the customer |
//! | `windows` | which windows of a range have rows |
//! | `count` | [`RowCounter`]: how many rows went by |
//!
//! A row that a client sent twice under one uuid is stored twice until ClickHouse merges the two,
//! and until then it is read twice: asking for the merged state (`FINAL`) would read all of a
//! project's month for each hour of it.

mod columns;
mod count;
mod error_codes;
mod failure;
mod persons;
mod reading;
mod settings;
mod windows;

pub use count::{CountError, RowCounter};
pub use error_codes::OF_QUERY;
pub use failure::read_failure;
pub use reading::{EventFilter, Part, Reading, Statement};
pub use settings::options;

/// How ClickHouse writes rows for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// A JSON object a line; `properties` is JSON in it, as it was sent.
    JsonLines,
    /// A JSON object a line with the columns of an events table in PostgreSQL and its kin: uuid,
    /// event, properties, elements, set, set_once, distinct_id, team_id, ip, site_url, timestamp.
    /// `properties`, `elements`, `set` and `set_once` are JSON in it, or null. Likewise of a table
    /// of persons: team_id, distinct_id, person_id, properties, person_distinct_id_version,
    /// person_version, created_at.
    TableJsonLines,
    /// RFC 4180 with a line of names.
    Csv,
    /// Apache Parquet, compressed so inside.
    Parquet(ColumnCompression),
    /// Apache Arrow's stream format, compressed so inside.
    Arrow(ColumnCompression),
}

/// Compression within a columnar file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named after what they are")]
pub enum ColumnCompression {
    None,
    Zstd,
    Lz4,
    Snappy,
    Gzip,
    Brotli,
}
