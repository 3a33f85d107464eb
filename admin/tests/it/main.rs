//! The admin API over a real catalog.
//!
//! Rules: requests go through the routes without a socket, except in `server`, `held`,
//! `proxy_rounds` and `conformance`; one catalog per
//! test.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod access;
mod batch_exports;
mod bodies;
mod conformance;
mod dns;
mod document;
mod domains;
mod fixture;
mod held;
mod historical_migrations;
mod idempotency;
mod invite_mail;
mod invites;
mod mail;
mod members;
mod organizations;
mod paths;
mod personal_api_keys;
mod plugin_catalogue;
mod plugins;
mod projects;
mod proxy_check;
mod proxy_records;
mod proxy_rounds;
mod roles;
mod served;
mod server;
mod servers;
mod signup;
mod signup_page;
mod stages;
mod throttle;
mod versions;

pub use fixture::Fixture;
