//! The real binary, driven as a user drives it: started, posted to, queried, killed.
//!
//! Rules: every server has a temporary folder and ports of its own; processes are ended by the id
//! we started; waiting is for a condition with a deadline, never for a time.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    reason = "tests"
)]

mod admins;
mod alerts;
mod attack;
mod away;
mod backup;
mod backup_parts;
mod browser;
mod cleanup;
mod clients;
mod clock;
mod commands;
mod copies;
mod crash;
mod disk;
mod drain;
mod export_persons;
mod export_runs;
mod exports;
mod first_event;
mod hostile;
mod hostile_texts;
mod import;
mod import_limits;
mod key_rotation;
mod migrations;
mod nodes;
mod people;
mod persons;
mod plugin_sources;
mod readme;
mod refusals;
mod rejected;
mod secrets;
mod server;
mod service;
mod settings;
mod sidecar;
mod sql_texts;
mod stop;
mod threads;
mod tidy;
mod untouched;
mod upgrade;
mod walls;
