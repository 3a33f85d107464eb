//! The HTTP side of the hot path: requests in, rows handed to the pipeline, answers out.
//!
//! ```text
//! worker ── accepts, one thread per core ──> edge ── times the socket ──> hyper
//!                                                                            │
//! pipeline <── http::capture <── http::payload <── http::handle <────────────┘
//! ```
//!
//! | Module | Does |
//! |---|---|
//! | [`Server`] (`server`), `listen` | listens, one socket per core; ends |
//! | `worker` | one core: accepts, serves, drains |
//! | `edge`, `framing` | one socket: timeouts, and what hyper lets through |
//! | `door` | what cannot be stored is sent away unread |
//! | `http` | requests and answers |
//! | `core` | what one core has of its own: parser, decoders, buffers |
//! | [`keys`] | project keys by moka |
//! | `resends` | requests acknowledged lately |
//! | [`Allowances`] (`allowances`) | how much projects may import, and how fast |
//! | `months` | how many older months a project may begin |
//! | `orphans` | submissions whose client went away |
//! | `turns` | which project is next on a core, and whom to send away |
//! | [`watermark`] | how far a node is, for who exports |
//! | `early` | the listener while the log is still being read |
//! | `budget`, `connections` | bounds of the process |
//! | [`health`], `readiness`, `metrics` | what operators look at |
//!
//! Invariants: nothing on a request's way waits for a lock, except for the lookup of a key that
//! is not cached, and for a moment where events are of older months; every buffer and every wait is bounded by [`HttpLimits`]; nothing a client sends
//! makes us panic.

#![forbid(unsafe_code)]

mod allowances;
mod budget;
mod config;
mod connections;
mod core;
mod door;
mod early;
mod edge;
mod framing;
pub mod health;
mod http;
pub mod keys;
mod listen;
mod metrics;
mod months;
mod orphans;
mod readiness;
mod resends;
mod server;
mod turns;
pub mod watermark;
mod worker;

pub use allowances::{Allowances, RunningAllowances};
pub use config::{HttpLimits, ServerConfig};
pub use core::Deps;
pub use early::EarlyListener;
pub use health::{HealthServer, Readiness};
pub use server::{Server, StartError};
