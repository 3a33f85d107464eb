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
//! | [`Server`] (`server`) | start and drain |
//! | `connection` | sockets: listeners, the worker of each core, timeouts, checks that hyper lacks |
//! | `admission` | who may come in: budget, fair queue, early reject, and all rejections |
//! | `http` | handlers: body, decoding, parsing, commit |
//! | `request`, `response` | heads of requests; responses |
//! | `core`, `process` | state of one core, and of all cores |
//! | `offload` | threads for work that would block a core |
//! | `scheduling` | turns of projects that wait for a core or for such a thread |
//! | [`keys`] | cache of project keys |
//! | `request_dedup` | fingerprints of requests that were acknowledged lately |
//! | [`ImportQuota`] (`import_quota`) | how much projects may import, and how fast |
//! | `detached_tasks` | submissions whose client went away |
//! | [`trace`] | traces of sampled requests |
//! | [`watermark`] | watermark of the node, which exports wait for |
//! | [`live_endpoint`] | live stream of this node, for the API of other processes |
//! | [`health`], `readiness`, `metrics`, `former_metrics`, `metrics_page`, `metrics_source` | state that operators look at |
//!
//! Invariants: no request waits for a lock, except for the look-up of a key that is not cached, and
//! for a moment where a body is offloaded, events are of older months or a response is above
//! 64 KiB; every buffer and every wait is bounded by [`HttpLimits`]; nothing that a client sends
//! makes the process panic.

#![forbid(unsafe_code)]

mod admission;
mod config;
mod connection;
mod core;
mod detached_tasks;
mod former_metrics;
pub mod health;
mod http;
mod import_quota;
pub mod keys;
pub mod live_endpoint;
mod metrics;
mod metrics_page;
mod metrics_source;
mod offload;
mod process;
mod readiness;
mod request;
mod request_dedup;
mod response;
mod scheduling;
mod server;
pub mod trace;
pub mod watermark;

pub use config::{HttpLimits, ServerConfig};
pub use connection::listener::StartError;
pub use connection::startup::StartupListener;
pub use connection::worker::WorkerError;
pub use health::{HealthServer, Readiness};
pub use import_quota::{ImportQuota, RunningImportQuota};
pub use metrics_source::{Collector, MetricsSource};
pub use process::Deps;
pub use server::Server;
