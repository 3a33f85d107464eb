//! ClickHouse away, slow, refusing, or lying: nothing that was acknowledged is lost or doubled,
//! requests are answered as long as the log has room, and all is caught up without help.
//!
//! ```text
//! millrace-load's generator ──> millrace ingest ──> proxy ──> millrace clickhouse
//!            └── ledger ─────────────── verify ────────────────────┘
//! ```
//!
//! The engine is a process of its own, and the proxy does harm on the way to it; counts are plain
//! counts by uuid with merges stopped. Each fault lasts until the shipper has run into it several
//! times. `make torture` lets each last for minutes more, by `MILLRACE_AWAY_SECONDS`, and holds the
//! figures to what is promised.

mod faults;
pub mod front;
mod outage;
mod poison;
mod real;
mod room;
pub mod stand;
mod tls;
mod unusable;
