//! Tests of the admin API over a real catalog.
//!
//! Rules: every test of the API runs on SQLite and on PostgreSQL, through `on_both!`; requests go
//! through the routes without a socket, except in `bounds`, `server`, `slow_requests`, `live`,
//! `queries`, `proxy_check_worker`, `tls` and `conformance`; one catalog per test.

// Futures of whole tests are nested deeply.
#![recursion_limit = "256"]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

/// Runs `async fn name()` once on each kind of database; `threads:` on a multi-threaded runtime.
macro_rules! on_both {
    (threads: $($name:ident),+ $(,)?) => {
        millrace_catalog::on_both!(
            [flavor = "multi_thread", worker_threads = 4] crate::fixture::on;
            $($name),+
        );
    };
    ($($name:ident),+ $(,)?) => {
        millrace_catalog::on_both!([flavor = "current_thread"] crate::fixture::on; $($name),+);
    };
}

mod access;
mod batch_exports;
mod bodies;
mod bounds;
mod canaries;
mod conformance;
mod control_characters;
mod dns;
mod dns_bounds;
mod document;
mod domains;
mod fake_live;
mod fake_queries;
mod fake_rejected_events;
mod fake_stats;
mod features;
mod fixture;
mod historical_migrations;
mod idempotency;
mod invite_mail;
mod invites;
mod live;
mod logs;
mod mail;
mod members;
mod middleware;
mod organizations;
mod paths;
mod personal_api_keys;
mod plugin_catalogue;
mod plugins;
mod projects;
mod property_columns;
mod proxy_check;
mod proxy_check_worker;
mod proxy_records;
mod queries;
mod refusals;
mod rejected_events;
mod request_ids;
mod roles;
mod server;
mod servers;
mod sign_in;
mod signup;
mod signup_page;
mod slow_requests;
mod stats;
mod test_server;
mod throttle;
mod tls;
mod verified_addresses;
mod versions;

pub use fixture::Fixture;
