//! Where rows go.
//!
//! A [`Destination`] is made of an export's configuration. A run asks it for a [`Delivery`] and
//! hands over the rows in parts; nothing is seen by others before [`Delivery::publish`], which
//! makes all of it seen at once, as far as the other side can do that. A delivery that is dropped
//! without it leaves nothing that a later try could not overwrite; [`Delivery::abort`] cleans up.
//!
//! | Module | Holds |
//! |---|---|
//! | [`dialler`] | how destinations get connections |
//! | [`files`] | files in object stores, and below a folder |
//! | [`postgres`] | tables behind PostgreSQL's protocol, Redshift's among them |
//! | [`warehouse`] | tables in warehouses behind HTTP |
//! | `snowflake`, `big_query`, `databricks` | what each of those does in a way of its own |
//! | [`http`] | servers that take events |
//! | [`no_op`] | nowhere |
//! | [`calls`] | HTTP calls that are tried until it is known whether they succeeded |
//! | `settings` | fields of a configuration |
//! | `table` | the columns of a table of events or persons, and the values of a row |
//! | `lines`, `json_text` | bytes into lines, and JSON that can be stored |

mod big_query;
pub mod calls;
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

pub use opening::{Configured, Destinations};

use crate::error::ExportError;
use crate::rows::RowForm;
use crate::window::RunScope;
use async_trait::async_trait;
use bytes::Bytes;

/// A place that rows can be sent to.
#[async_trait]
pub trait Destination: Send + Sync {
    /// The form that rows are wanted in.
    fn form(&self) -> RowForm;

    /// In how many parts (files) a window of about so many bytes is wanted, 1 or more; each part
    /// is a statement of its own.
    fn parts(&self, _bytes_estimated: u64) -> u32 {
        1
    }

    /// Begins to deliver a run in so many parts.
    ///
    /// # Errors
    /// The other side is away, or does not let us.
    async fn begin(&self, run: &RunScope, parts: u32) -> Result<Box<dyn Delivery>, ExportError>;

    /// The steps of a test of this destination, in order, each made by [`Destination::test`].
    fn test_steps(&self) -> &'static [TestStep];

    /// Makes one step of a test; the ones before it have succeeded. It may take long: whoever waits
    /// for it says how long.
    ///
    /// # Errors
    /// It did not succeed.
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
    /// Write something where the export will write.
    Write,
    /// Read it.
    Read,
    /// Delete it.
    Delete,
}

/// Rows of one run on their way.
#[async_trait]
pub trait Delivery: Send {
    /// Takes the next bytes of the current part; the first part is begun. Waits while the other
    /// side is slower than ClickHouse.
    ///
    /// # Errors
    /// The other side does not take them.
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError>;

    /// Ends the current part, which had so many rows, and begins the next one.
    ///
    /// # Errors
    /// The other side does not take it.
    async fn end_part(&mut self, rows: u64) -> Result<(), ExportError>;

    /// Bytes that were sent so far, as they were sent: encoded and compressed.
    fn bytes(&self) -> u64;

    /// Makes everything seen; all parts were ended.
    ///
    /// # Errors
    /// The other side does not do it. Then nothing is seen, or all of it, and another try brings
    /// about the same.
    async fn publish(self: Box<Self>) -> Result<Delivered, ExportError>;

    /// Takes back what is there so far, as well as that can be done.
    async fn abort(self: Box<Self>);
}

/// What was delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// How many rows the other side says it has of this run, where it says so.
    pub rows: Option<u64>,
    /// Bytes as they were sent: encoded and compressed.
    pub bytes: u64,
    /// Rows of which something had to be changed, as the other side cannot store it (NUL).
    pub rows_changed: u64,
}
