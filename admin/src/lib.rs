//! The organization management API.
//!
//! | Module | Holds |
//! |---|---|
//! | `app` | all routes, and what answers where there is none |
//! | `server` | the accept loop: time-outs, connection limit, drain |
//! | `api` | what every handler is given; one resource's way through authentication and method |
//! | `auth` | from the `Authorization` header to a caller with scopes |
//! | `page` | `limit`, `offset` and the envelope of lists |
//! | `error` | the one shape of errors |
//! | `routes` | one file for each resource: filter, handlers, wire types |
//!
//! Invariants:
//!
//! - Handlers answer with replies, errors included. A warp rejection means "no such route" only.
//! - The order is route, authentication, scope, method, body. Foreign, unknown and malformed ids
//!   have one answer, so that nothing can be probed.

#![forbid(unsafe_code)]

mod api;
mod app;
mod auth;
mod error;
mod page;
mod routes;
mod server;

pub use app::routes;
pub use server::serve;
