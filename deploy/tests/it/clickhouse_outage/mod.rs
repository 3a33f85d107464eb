//! ClickHouse absent, slow, rejecting, or answering wrongly: no acknowledged event is lost or
//! doubled, requests are answered as long as the log has space, and the backlog is shipped without
//! help.
//!
//! ```text
//! millrace-load's generator ──> millrace ingest ──> proxy ──> millrace clickhouse
//!            └── ledger ─────────────── verify ────────────────────┘
//! ```
//!
//! The engine is a process of its own, and the proxy injects faults before it; counts are plain
//! counts by uuid with merges stopped. Each fault lasts until the shipper has run into it several
//! times. `make torture` lets each last for minutes more, by `MILLRACE_AWAY_SECONDS`, and compares
//! the figures with the promises.

mod catch_up;
mod dead_letters;
mod engine_faults;
mod faults;
mod full_log;
pub mod test_env;
mod tls;
pub mod tls_proxy;
mod tls_readers;
mod unusable;
