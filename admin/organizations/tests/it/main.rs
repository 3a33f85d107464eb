//! Tests of organizations, and of what belongs to them, on real databases.
//!
//! Rules: every test of behaviour runs on SQLite and on PostgreSQL, through `on_both!`; one
//! database per test; time is a `TestClock`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

#[macro_use(on_both)]
extern crate millrace_catalog;

mod activity;
mod bootstrap;
mod catalog_copies;
mod cleanup;
mod conditions;
mod contention;
mod domains;
mod emails;
mod ended_keys;
mod features;
mod historical_migrations;
mod idempotency;
mod invites;
mod limits;
mod members;
mod open;
mod organization_changes;
mod organizations;
mod own_keys;
mod personal_keys;
mod plugins;
mod project_keys;
mod projects;
mod property_columns;
mod proxy_records;
mod rejected_event_resends;
mod response_bytes;
mod roles;
mod sessions;
mod signup;
mod standby;
mod unused_users;
mod upgrade;
mod writers;
