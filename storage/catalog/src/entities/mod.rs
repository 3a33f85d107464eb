//! The tables, one file each. They stay inside this crate: callers get the models only.

pub mod activity_counts;
pub mod activity_log;
pub mod batch_export_backfills;
pub mod batch_export_latest_runs;
pub mod batch_export_logs;
pub mod batch_export_runs;
pub mod batch_exports;
pub mod catalog_versions;
pub mod historical_migrations;
pub mod idempotency_keys;
pub mod ingest_nodes;
pub mod leases;
pub mod organization_domains;
pub mod organization_invites;
pub mod organization_memberships;
pub mod organizations;
pub mod personal_api_keys;
pub mod plugin_configs;
pub mod plugin_source_files;
pub mod plugins;
pub mod projects;
pub mod proxy_records;
pub mod role_memberships;
pub mod roles;
pub mod users;
