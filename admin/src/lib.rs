//! The organization management API.
//!
//! | Module | Holds |
//! |---|---|
//! | `routes` | one file for each resource: its table of operations, handlers, responses |
//! | `operation` | description of one operation; how to add one |
//! | `openapi` | the OpenAPI document over all operations, and a page of it |
//! | `app`, `filter` | what all requests share; the API as one filter |
//! | `router`, `server` | from path to operation; the accept loop |
//! | `socket` | handshake of a connection, where there is TLS |
//! | `connections` | limit on open connections of an address |
//! | `middleware`, `metrics` | the checks of every request, in order; numbers of requests |
//! | `authorization` | authentication, rate limit, scopes, membership, level |
//! | `request` | parts of a request: key, rate limits, origin, ids in its path, body |
//! | `change` | requests that write: idempotency keys, versions, locks |
//! | `context`, `services` | what handlers receive |
//! | `response`, `error`, `page` | what is sent |
//! | [`certificates`] | validation of certificates |
//! | [`dns`], [`domain_name`] | proofs of domains, aliases; normalization of names |
//! | [`live_source`], `live_slots` | live streams of events; how many run at a time |
//! | `stream_grant` | access that a lasting response depends on |
//! | `key_cache` | ingestion's cache of project keys in the same process |
//! | [`mail`] | invitations and notices through SMTP |
//! | [`plugin_catalogue`] | plugins that can be installed |
//! | [`project_queries`], `query_slots` | queries of projects in ClickHouse; how many run at a time |
//! | [`rejected_events`], [`project_stats`] | rejected events of projects; numbers of events |
//! | [`proxy_check`] | checks of the domains of managed reverse proxies |
//! | `stopping` | the server's stop, and clients that stall in a request meanwhile |
//! | `console`, `front_page`, `docs_assets` | the console; `/api/`, and the files of the document's page; no operations either |
//! | `ingest_url` | address that clients send events to |
//! | `signup_page`, `sign_in_page` | pages behind links; no operations, so not in the document |
//! | `static_page` | a page of the program, with the headers that keep it safe |
//! | `sign_in_mails` | limits on mails with sign-in links |
//! | `schema`, `control_characters` | schemas of bodies, and what texts in them may hold |
//! | `level_number` | levels by their numbers |
//!
//! Invariants:
//!
//! - The table of operations is the source of router and document; neither has anything else.
//! - A body is checked against the schema that is published for it.
//! - Handlers answer with values and errors. Nothing rejects in warp's sense.
//! - Foreign, unknown and malformed ids have one answer, so that nothing can be probed.

#![forbid(unsafe_code)]

mod app;
mod authorization;
pub mod certificates;
mod change;
mod connections;
mod console;
mod context;
mod control_characters;
pub mod dns;
mod docs_assets;
pub mod domain_name;
mod error;
mod export_notices;
mod filter;
mod front_page;
mod ingest_url;
mod key_cache;
mod level_number;
mod live_slots;
pub mod live_source;
pub mod mail;
mod metrics;
mod middleware;
mod openapi;
mod operation;
mod page;
pub mod plugin_catalogue;
pub mod project_queries;
pub mod project_stats;
pub mod proxy_check;
mod query_slots;
pub mod rejected_events;
mod request;
mod response;
mod router;
mod routes;
mod schema;
mod server;
mod services;
mod sign_in_mails;
mod sign_in_page;
mod signup_page;
mod socket;
mod static_page;
mod stopping;
mod stream_grant;

pub use app::TableError;
pub use export_notices::ExportNotices;
pub use filter::routes;
pub use ingest_url::IngestUrl;
pub use key_cache::KeyCache;
pub use server::{STOP_TIME_MAX, serve};
pub use services::{ApiConfig, Services};
