//! What Amazon Redshift does in a way of its own: it speaks PostgreSQL's protocol but has no COPY
//! from a connection, no keys that it keeps, and no upsert.
//!
//! Rows go into a temporary table by INSERTs of many rows each, as texts. One transaction takes
//! out of the table what is there of them and puts all of them in, each `uuid` once. What runs
//! are committed is known as in PostgreSQL.
//!
//! Limits of Redshift: a statement has 16 MB, a VARCHAR 65 535 bytes. JSON that is longer is
//! replaced by a note of its length, and the row counted as changed; otherwise one event would
//! keep back all exports for ever. Nothing here was tried on Redshift itself: tests run what is
//! not its own SQL on PostgreSQL, which has functions of the same names there.

mod delivery;
mod sql;

pub(super) use delivery::InsertDelivery;
