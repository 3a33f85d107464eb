//! Tests of the ingest contract, table by table, against a real server: real sockets, a real log on
//! disk, a real SQLite catalog. Rows are read back from the log.
//!
//! Rules: every test has a server of its own on port 0 and a directory of its own; the clock
//! stands still; nothing sleeps; a test's name is the sentence it proves.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod answers;
mod client;
mod cors;
mod drain;
mod early_reject;
mod encodings;
mod endpoints;
mod fixtures;
mod health;
mod hostile;
mod idle_connections;
mod imports;
mod keys;
mod limits;
mod live;
mod months;
mod overload;
mod panics;
mod parser_memory;
mod parts;
mod request_dedup;
mod rows;
mod scripts;
mod sockets;
mod test_env;
mod tls;
mod v1;
mod watermark;
