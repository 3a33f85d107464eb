//! The organization management API.
//!
//! | Module | Holds |
//! |---|---|
//! | `routes` | one file for each resource: its table of operations, handlers, wire types |
//! | `operation` | what one operation says of itself; how to add one |
//! | `openapi`, `docs` | the document that all operations make; it as a page |
//! | `app`, `router`, `server` | the whole; from path to operation; the accept loop |
//! | `stages`, `change` | the way of a request, in order |
//! | `auth`, `throttle`, `origin` | who asks, how often, from where |
//! | `scope` | what a path speaks of |
//! | `body`, `schema`, `violation` | from bytes to a checked body; the first error in it |
//! | `idempotency`, `etag` | the same request twice; versions of a resource |
//! | `context`, `services` | what handlers are given |
//! | `answer`, `response`, `error`, `page` | what is sent |
//! | [`certificates`] | whether a text is a certificate |
//! | [`dns`], [`domain_name`] | proofs of domains, aliases; the one form of a name |
//! | [`mail`] | invitations and notices through SMTP |
//! | [`plugin_catalogue`] | plugins that can be installed |
//! | [`proxy_check`] | how far a reverse proxy's domain is |
//! | `signup_page` | the page behind an invitation's link; no operation, so not in the document |
//! | `patch`, `timestamp`, `level_number` | types of fields |
//!
//! Invariants:
//!
//! - The table of operations is the source of router and document; neither has anything else.
//! - A body is checked against the schema that is published for it.
//! - Handlers answer with values and errors. Nothing rejects in warp's sense.
//! - Foreign, unknown and malformed ids have one answer, so that nothing can be probed.

#![forbid(unsafe_code)]
#![allow(dead_code, reason = "constructors that the next resources use")]

mod answer;
mod app;
mod auth;
mod body;
pub mod certificates;
mod change;
mod context;
pub mod dns;
mod docs;
pub mod domain_name;
mod error;
mod etag;
mod idempotency;
mod level_number;
pub mod mail;
mod openapi;
mod operation;
mod origin;
mod page;
mod patch;
pub mod plugin_catalogue;
pub mod proxy_check;
mod request_id;
mod response;
mod router;
mod routes;
mod schema;
mod scope;
mod server;
mod services;
mod signup_page;
mod stages;
mod throttle;
mod timestamp;
mod violation;

pub use app::{TableError, routes};
pub use server::serve;
pub use services::{ApiConfig, Services};
