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

mod admin_failover;
mod admin_sidecar;
mod alerts;
mod backup;
mod backup_parts;
mod browser;
mod circles;
mod citations;
mod cleanup;
mod clickhouse_outage;
mod clickhouse_users;
mod clients;
mod clock;
mod cluster;
mod commands;
mod console;
mod crash;
mod dashboards;
mod data_folder_copies;
mod disk;
mod doc_tests;
mod doctor;
mod drain;
mod export_persons;
mod export_runs;
mod exports;
mod failed_starts;
mod first_event;
mod fleet;
mod hostile;
mod hostile_texts;
mod import;
mod import_limits;
mod isolation;
mod json_lists;
mod key_rotation;
mod live;
mod log_file;
mod member_commands;
mod migration_commands;
mod nodes;
mod other_catalogs;
mod output;
mod panics;
mod persons;
mod plugin_sources;
mod project_queries;
mod property_columns;
mod prose;
mod read_only_commands;
mod readme;
mod rejected_events;
mod rejected_events_api;
mod secrets;
mod server;
mod service;
mod settings;
mod sign_in;
mod sql_texts;
mod stats;
mod stop;
mod thread_priorities;
mod tidy;
mod tls;
mod traces;
mod upgrade;
