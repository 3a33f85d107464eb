//! Parts that differ in Amazon Redshift: it speaks PostgreSQL's protocol but has no COPY from a
//! connection, no enforced keys, and no upsert.
//!
//! Rows go into a temporary table by INSERTs of many rows each, as texts. One transaction deletes
//! their stored versions from the table and inserts all of them, each `uuid` once. Committed runs
//! are found out as in PostgreSQL.
//!
//! Limits of Redshift: a statement has 16 MB, a VARCHAR 65 535 bytes. Longer JSON is replaced by a
//! note of its length, and the row counted as changed; otherwise one event would block all later
//! exports. Nothing here was tried on Redshift itself: tests run all but Redshift's own SQL on
//! PostgreSQL, with functions of the same names.

mod delivery;
mod sql;

pub(super) use delivery::InsertDelivery;
