//! Destinations of exports: where rows are delivered.
//!
//! A [`Destination`] is opened from an export's configuration. A run begins a [`Delivery`] and
//! hands over the rows in parts. Nothing is visible to others before [`Delivery::publish`], which
//! makes all rows visible at once, as far as the other side can do that. A delivery that is dropped
//! unpublished leaves nothing that a later try could not overwrite; [`Delivery::abort`] cleans up.
//!
//! | Module | Holds |
//! |---|---|
//! | [`dialler`] | connections of destinations |
//! | [`files`] | files in object stores, and below a folder |
//! | [`postgres`] | tables behind PostgreSQL's protocol, Redshift's among them |
//! | [`warehouse`] | tables in warehouses behind HTTP |
//! | `snowflake`, `big_query`, `databricks` | the parts of warehouses that differ by vendor |
//! | [`clickhouse`] | tables in customers' ClickHouse |
//! | [`http`] | servers that receive events |
//! | [`no_op`] | discards rows |
//! | [`calls`] | HTTP calls that are retried until their outcome is known |
//! | `config`, `settings` | configuration of a destination, and its fields |
//! | `table` | the columns of a table of events or persons, and the values of a row |
//! | `lines`, `json_text` | splits bytes into lines, and makes JSON storable |

mod big_query;
pub mod calls;
pub mod clickhouse;
mod config;
mod databricks;
pub mod dialler;
pub mod files;
pub mod http;
mod json_text;
mod lines;
pub mod no_op;
mod opening;
pub mod postgres;
mod settings;
mod snowflake;
mod table;
pub mod warehouse;

pub use config::DestinationConfig;
pub use opening::Destinations;

use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;

/// Destination that rows can be delivered to.
#[async_trait]
pub trait Destination: Send + Sync {
    /// Form in which the destination takes rows.
    fn form(&self) -> RowForm;

    /// Number of parts (files) for a window of about this size, 1 or more; each part is a statement
    /// of its own.
    fn parts(&self, _bytes_estimated: u64) -> u32 {
        1
    }

    /// Begins to deliver a run in a number of parts.
    ///
    /// # Errors
    /// The other side is unavailable, or refuses access.
    async fn begin(&self, run: &RunScope, parts: u32) -> Result<Box<dyn Delivery>, ExportError>;

    /// Steps of a test of this destination, in order, each made by [`Destination::test`].
    fn test_steps(&self) -> &'static [TestStep];

    /// Makes one step of a test; the steps before it have succeeded. [`TestStep::Delete`] is made
    /// also after a failure, once [`TestStep::Write`] was begun, and takes it that there is nothing
    /// to delete. A step may take long: the caller limits the time.
    ///
    /// # Errors
    /// The step failed.
    async fn test(&self, step: TestStep) -> Result<(), ExportError>;
}

/// One step of a test of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestStep {
    /// Connect to the server.
    Reach,
    /// Present the credentials.
    Authenticate,
    /// Find the database and the schema.
    Find,
    /// Write a test record where the export will write.
    Write,
    /// Read the test record.
    Read,
    /// Delete the test record.
    Delete,
}

/// Delivery of one run's rows.
#[async_trait]
pub trait Delivery: Send {
    /// Takes the next bytes of the current part; the first part begins by itself. Waits while the
    /// other side is slower than ClickHouse.
    ///
    /// # Errors
    /// The other side does not accept the bytes.
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError>;

    /// Ends the current part with its number of rows, and begins the next one.
    ///
    /// # Errors
    /// The other side does not accept the part.
    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError>;

    /// Bytes sent so far, as they were sent: encoded and compressed.
    fn bytes(&self) -> u64;

    /// Makes all rows visible; all parts were ended.
    ///
    /// # Errors
    /// The other side does not carry it out. Then nothing is visible, or all of it, and another try
    /// has the same result.
    async fn publish(self: Box<Self>) -> Result<Delivered, ExportError>;

    /// Removes the delivered rows, as far as that can be done.
    async fn abort(self: Box<Self>);
}

/// Outcome of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Rows that the other side reports for this run, if it does.
    pub rows: Option<u64>,
    /// Bytes as they were sent: encoded and compressed.
    pub bytes: u64,
    /// Rows that had to be changed, as the other side cannot store some of their characters (NUL).
    pub rows_changed: u64,
}
