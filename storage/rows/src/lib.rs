//! Tables, rows and their keys, and the encoding of rows in
//! [RowBinary](https://clickhouse.com/docs/interfaces/formats/RowBinary).
//!
//! Everything here is pure: no I/O, no clock reads except through [`Clock`], no allocation
//! beyond the buffer a row is appended to.
//!
//! | Module | Holds |
//! |---|---|
//! | `ids` | [`ProjectId`], [`Micros`], [`Month`] |
//! | `table` | [`Table`]: names, column lists |
//! | `key` | [`RowKey`]: the key by which a stored row is found again |
//! | `batch` | [`Batch`]: one request's rows, on their way from the parser to the log |
//! | `event`, `rejected_row`, `person` | the rows, and their encoding |
//! | `restamp` | another time of receipt for encoded rows |
//! | `stored` | views of encoded rows |
//! | `person_id` | the ids of persons that were never merged |
//! | `rowbinary` | the primitive writers |
//! | `clock` | [`Clock`]: the time, settable in tests |
//! | `counted` | numbers with their noun |
//! | `network` | [`network_of`]: the network that a client's limits count for |
//! | `property_column` | [`PropertyColumn`]: columns of single properties, and their values |
//! | `rare_log` | [`RareLog`]: failures that come again and again are logged rarely |
//! | `shown` | foreign texts with escaped control characters |
//! | `thrift` | reader of the encoding of Parquet's metadata |
//! | `testing` | rows read back and settings of tests, with the feature `testing` only |

#![forbid(unsafe_code)]

mod batch;
mod clock;
mod counted;
mod event;
mod ids;
mod key;
mod network;
mod person;
mod person_id;
mod property_column;
mod rare_log;
mod rejected_row;
mod restamp;
pub mod rowbinary;
mod shown;
mod stored;
mod table;
#[cfg(feature = "testing")]
pub mod testing;
pub mod thrift;

pub use batch::{Batch, Lane, RowGroup};
pub use clock::{Clock, SystemClock, TestClock};
pub use counted::counted;
pub use event::EventRow;
pub use ids::{Micros, Month, ProjectId};
pub use key::RowKey;
pub use network::network_of;
pub use person::{PERSON_PROPERTIES_BYTES_MAX, PROPERTY_BYTES_BESIDE, PersonUpdateRow, UpdateKind};
pub use person_id::{PERSON_NAMESPACE, person_id};
pub use property_column::{PropertyColumn, PropertyType};
pub use rare_log::RareLog;
pub use rejected_row::RejectedRow;
pub use shown::{CONTROL_CLASS, TAG_CLASS, is_control, shown, shown_json, shown_lines};
pub use stored::{StoredEvent, StoredRejected};
pub use table::Table;
