//! HTTP side of the hot path: requests in, rows handed to the pipeline, responses out.
//!
//! ```text
//! worker ── accepts, one thread per core ──> connection ── times the socket ──> hyper
//!                                                                                  │
//! pipeline <── http::capture <── http::payload <── http::handle <──────────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | [`Server`] (`server`), `listen` | listening sockets, one per core; start and drain |
//! | `worker` | one core: accepts, serves, drains |
//! | `connection`, `framing` | one socket: timeouts, and checks that hyper lacks |
//! | `early_reject` | rejects requests that cannot be stored before they are read |
//! | `http` | requests and responses |
//! | `core` | state of one core: parser, decoders, buffers |
//! | [`keys`] | cache of project keys |
//! | `request_dedup` | fingerprints of requests that were acknowledged lately |
//! | [`ImportQuota`] (`import_quota`) | how much projects may import, and how fast |
//! | `month_limiter` | how many older months organizations may begin |
//! | `detached_tasks` | submissions whose client went away |
//! | `fair_queue` | deficit round robin between the projects on a core |
//! | [`watermark`] | watermark of the node, which exports wait for |
//! | `startup` | listener while the log is still being read |
//! | `budget`, `connection_limiter` | limits of the process |
//! | [`health`], `readiness`, `metrics`, `former_metrics` | state that operators look at |
//!
//! Invariants: no request waits for a lock, except for the look-up of a key that is not cached, and
//! for a moment where events are of older months; every buffer and every wait is bounded by
//! [`HttpLimits`]; nothing that a client sends makes the process panic.

#![forbid(unsafe_code)]

mod budget;
mod config;
mod connection;
mod connection_limiter;
mod core;
mod detached_tasks;
mod early_reject;
mod fair_queue;
mod former_metrics;
mod framing;
pub mod health;
mod http;
mod import_quota;
pub mod keys;
mod listen;
mod metrics;
mod month_limiter;
mod readiness;
mod request_dedup;
mod server;
mod startup;
pub mod watermark;
mod worker;

pub use config::{HttpLimits, ServerConfig};
pub use core::Deps;
pub use health::{HealthServer, Readiness};
pub use import_quota::{ImportQuota, RunningImportQuota};
pub use server::{Server, StartError};
pub use startup::StartupListener;
