//! Ships the log into ClickHouse, each row exactly once.
//!
//! Per lane one shipper reads the synced frames, gathers their sections by column list and month,
//! and sends each batch of sections as one insert, whose bytes are the log's own, or are made of
//! them.
//!
//! ```text
//! log ──Reader──> Plan (gather, take) ──checkpoint──> Delivery ──insert──> ClickHouse
//!  ▲                ▲                                    │
//!  └──release low───┴───────────────settled──────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | `lane` | the loop: reads, plans, persists the checkpoint, sends, releases |
//! | `plan`, `insert_batch`, `section`, `limits` | assigns rows to batches; pure |
//! | `checkpoint` | the state that survives a restart; pure |
//! | `deliver`, `sink`, `backoff` | tries an insert batch until its `insert_result` is known |
//! | `row_lookup` | looks up how many of a batch's rows are in the table: all, some or none |
//! | `row_keys` | keys of the rows that the table keeps of a batch |
//! | `attribution` | attributes failures to the rows or to the server |
//! | `retries` | limits the batches that fail again and again |
//! | `execute` | reads a batch's bytes, delivers, dead-letters rows that cannot be read |
//! | `source`, `rows`, `chosen_rows` | reads a batch's bytes; cuts them between rows |
//! | `sent_rows` | makes a native block of a batch's rows, if they are to be sent as one |
//! | `filled_columns` | property columns that blocks have |
//! | `blocking` | runs work that may block; its panic ends the task that waits for it |
//! | `dead_letters` | keeps rows that ClickHouse refuses |
//!
//! Promises:
//! - a row is settled once: it is in ClickHouse exactly once, or among the dead letters;
//! - a batch is recorded in a synced checkpoint before it is sent;
//! - a segment is released only when a synced checkpoint no longer needs it;
//! - memory holds positions, not bytes, except of the batches in flight.

mod attribution;
mod backoff;
mod blocking;
mod checkpoint;
mod chosen_rows;
mod dead_letters;
mod deliver;
mod event_search;
mod execute;
mod filled_columns;
mod insert_batch;
mod insert_result;
mod lane;
mod limits;
mod options;
mod plan;
mod retries;
mod row_keys;
mod row_lookup;
mod rows;
mod salvage;
mod section;
mod sent_rows;
mod sink;
mod source;

#[cfg(test)]
mod delivery_model;
#[cfg(test)]
mod fake_sink;

pub use filled_columns::FilledColumns;
pub use lane::{ShipError, run};
pub use limits::Limits;
pub use options::{InsertFormat, ShipOptions};
