//! The organization management API.
//!
//! | Module | Holds |
//! |---|---|
//! | `routes` | one file for each resource: its table of operations, handlers, wire types |
//! | `operation` | what one operation says of itself; how to add one |
//! | `openapi` | the document that all operations make, and a page of it |
//! | `app`, `router`, `server` | the whole; from path to operation; the accept loop |
//! | `connections` | how many an address may have |
//! | `stages` | the way of a request, in order |
//! | `admission` | whether it is let in |
//! | `request` | its parts: who asks, how often, from where, of what; its body |
//! | `change` | its end where it changes something: the same one twice, versions of a thing |
//! | `context`, `services` | what handlers are given |
//! | `answer`, `error`, `page` | what is sent |
//! | [`certificates`] | whether a text is a certificate |
//! | [`dns`], [`domain_name`] | proofs of domains, aliases; the one form of a name |
//! | `key_cache` | what ingestion in the same process knows of keys |
//! | [`mail`] | invitations and notices through SMTP |
//! | [`plugin_catalogue`] | plugins that can be installed |
//! | [`proxy_check`] | how far a reverse proxy's domain is |
//! | `signup_page` | the page behind an invitation's link; no operation, so not in the document |
//! | `schema`, `patch`, `timestamp`, `level_number` | types of bodies and their fields |
//!
//! Invariants:
//!
//! - The table of operations is the source of router and document; neither has anything else.
//! - A body is checked against the schema that is published for it.
//! - Handlers answer with values and errors. Nothing rejects in warp's sense.
//! - Foreign, unknown and malformed ids have one answer, so that nothing can be probed.

#![forbid(unsafe_code)]

mod admission;
mod answer;
mod app;
pub mod certificates;
mod change;
mod connections;
mod context;
pub mod dns;
pub mod domain_name;
mod error;
mod export_notices;
mod front_page;
mod key_cache;
mod level_number;
pub mod mail;
mod openapi;
mod operation;
mod page;
mod patch;
mod plain_text;
pub mod plugin_catalogue;
pub mod proxy_check;
mod request;
mod router;
mod routes;
mod schema;
mod server;
mod services;
mod signup_page;
mod stages;
mod timestamp;

pub use app::{TableError, routes};
pub use export_notices::ExportNotices;
pub use key_cache::KeyCache;
pub use server::serve;
pub use services::{ApiConfig, Services};
