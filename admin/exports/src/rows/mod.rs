//! Statements that read a window, row formats, and row counters.
//!
//! | Module | Holds |
//! |---|---|
//! | `window_query` | [`WindowQuery`]: statements that read a window |
//! | `columns` | columns of a row, by form |
//! | `persons` | rows of persons and groups |
//! | `statement` | statement with its settings |
//! | `settings` | settings and limits of statements |
//! | `failure`, `error_codes` | errors of ClickHouse, in words for the customer |
//! | `windows` | windows of a range that have rows |
//! | `count` | [`RowCounter`]: counts rows in bytes |
//!
//! A row that a client sent twice under one uuid is stored twice until ClickHouse merges the two,
//! and until then it is exported twice: reading the merged state (`FINAL`) would read a whole month
//! of a project for each hour of it.

mod columns;
mod count;
mod error_codes;
mod failure;
mod persons;
mod settings;
mod statement;
mod window_query;
mod windows;

pub use count::{CountError, RowCounter};
pub use error_codes::{OF_QUERY, OF_SERVER};
pub use failure::{WindowSearchError, read_failure};
pub use settings::options;
pub use statement::Statement;
pub use window_query::{EventFilter, WindowPart, WindowQuery};

/// Form in which ClickHouse writes rows for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// One JSON object per line; `properties` is JSON in it, as it was sent.
    JsonLines,
    /// One JSON object per line with the columns of a table. Of events: uuid, event, properties,
    /// elements, set, set_once, distinct_id, team_id, ip, site_url, timestamp; `properties`,
    /// `elements`, `set` and `set_once` are JSON in it, or null. Of persons: team_id, distinct_id,
    /// person_id, properties, person_distinct_id_version, person_version, created_at.
    TableJsonLines,
    /// CSV of RFC 4180 with a header line.
    Csv,
    /// Apache Parquet, with this compression inside.
    Parquet(ColumnCompression),
    /// Apache Arrow's stream format, with this compression inside.
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
