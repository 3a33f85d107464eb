//! Entities of the tables, one file each. They are for the owners of the records, which `deny.toml`
//! lists with SeaORM; all others get the models only.

#![allow(missing_docs, reason = "SeaORM's macros make items without")]

pub mod activity_counts;
pub mod activity_log;
pub mod batch_export_backfills;
pub mod batch_export_latest_runs;
pub mod batch_export_logs;
pub mod batch_export_runs;
pub mod batch_exports;
pub mod catalog_versions;
pub mod deleted_batch_exports;
pub mod deleted_organizations;
pub mod deleted_plugins;
pub mod deleted_projects;
pub mod group_types;
pub mod groups;
pub mod historical_migrations;
pub mod idempotency_bytes;
pub mod idempotency_keys;
pub mod import_leases;
pub mod import_quotas;
pub mod ingest_nodes;
pub mod leases;
pub mod organization_domains;
pub mod organization_invites;
pub mod organization_memberships;
pub mod organizations;
pub mod person_backlogs;
pub mod person_distinct_ids;
pub mod person_new_ids;
pub mod person_progress;
pub mod personal_api_keys;
pub mod persons;
pub mod plugin_configs;
pub mod plugin_source_files;
pub mod plugins;
pub mod projects;
pub mod proxy_records;
pub mod role_memberships;
pub mod roles;
pub mod unused_users;
pub mod users;
pub mod withdrawn_plugins;
