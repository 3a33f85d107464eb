//! The log into ClickHouse, each row exactly once.
//!
//! Per lane one shipper reads the frames that are synced, gathers their sections by column list
//! and month, and sends each gathering as one insert, whose bytes are the log's own.
//!
//! ```text
//! log ──Reader──> Plan (gather, take) ──checkpoint──> Delivery ──insert──> ClickHouse
//!  ▲                ▲                                    │
//!  └──release low───┴───────────────settled──────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | `lane` | the loop: reads, plans, stores the checkpoint, sends, releases |
//! | `plan`, `unit`, `section`, `limits` | which rows go into which insert; pure |
//! | `checkpoint` | what survives a restart; pure |
//! | `deliver`, `sink`, `pace` | one insert until its outcome is known |
//! | `sought` | whether an insert's rows are there: all, some or none |
//! | `proof` | whether rows or the server are to blame for a failure |
//! | `retries` | places of those that fail again and again |
//! | `attempt` | reads an insert's bytes, delivers, sets aside what cannot be read |
//! | `source`, `rows` | an insert's bytes; cutting them between rows |
//! | `poison` | where rows go that ClickHouse refuses |
//!
//! Promises:
//! - a row is settled once: it is in ClickHouse exactly once, or in the poison folder;
//! - an insert is recorded in a synced checkpoint before it is sent;
//! - a segment is released only when a synced checkpoint no longer needs it;
//! - memory holds places, not bytes, except of the inserts under way.

mod attempt;
mod checkpoint;
mod deliver;
mod lane;
mod limits;
mod options;
mod pace;
mod plan;
mod poison;
mod proof;
mod retries;
mod rows;
mod salvage;
mod section;
mod sink;
mod sought;
mod source;
mod unit;

#[cfg(test)]
mod fake_sink;
#[cfg(test)]
mod model;

pub use lane::{ShipError, run};
pub use limits::Limits;
pub use options::ShipOptions;
pub(crate) use rows::Layout;
pub(crate) use source::unpacked;
