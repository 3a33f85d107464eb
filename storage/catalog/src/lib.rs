//! Catalog of organizations, projects, users and keys, in SQLite or PostgreSQL: the tables, and
//! what the crates need that own their records.
//!
//! | Module | Holds |
//! |---|---|
//! | `catalog` | [`Catalog`]: open, migrate, close; the change counter |
//! | `identity` | the id of the catalog, and its location |
//! | `copying` | copies all rows to another database |
//! | `connect` | connection pools from a URL; durability settings of SQLite |
//! | `examination` | a look at a catalog that changes nothing |
//! | `actor`, `activity` | author of a change; the log of all changes |
//! | `ingest_nodes` | registry of ingest nodes, and how far each has shipped |
//! | `node_reports` | reports of nodes about themselves, and how long each has been silent |
//! | `key_fingerprint` | fingerprint of the key that secrets are encrypted with |
//! | `node_endpoints` | endpoints at which nodes serve their live streams |
//! | `project_keys` | project keys, with which events are posted |
//! | [`email`] | addresses in one form; no I/O |
//! | `person_watermark` | the time up to which persons are known |
//! | [`leases`] | leases of work that one process does at a time |
//! | [`cleanup`] | rows of deleted projects, organizations, batch exports and plugins; old rows |
//! | [`bounded_json`] | JSON from outside, read within bounds; no I/O |
//! | `stored_json` | free-form JSON of rows |
//! | [`key`] | format of keys; no I/O |
//! | `scopes`, `level`, `features` | permissions of keys, members and organizations; no I/O |
//! | `limits` | limits of what an organization or a user may have |
//! | `condition`, `condition_locks` | preconditions of changes, checked under the locks of the change |
//! | [`transaction`] | begin, checks and end of a writing transaction |
//! | [`entities`], `migrations` | the tables and their history |
//! | [`database_clock`] | the clock that all processes share |
//! | [`page`], [`random`] | pages of lists, random texts |
//! | `patch` | [`Patch`], a field of a change that may be left out |
//! | `location` | location of the database, and classification of its errors |
//! | `error` | [`CatalogError`] for the operator, [`ChangeError`] for the caller |
//!
//! Operations on a resource are methods of a handle that borrows the catalog, as [`Nodes`].
//!
//! Invariants:
//!
//! - A change of anything that the ingestion path caches increments the `keys` counter in the
//!   same transaction, so a reader of the new number sees the change.
//! - Every write takes an [`Actor`] and leaves an entry in the activity log, in the same
//!   transaction. Exceptions: runs of batch exports that Millrace creates by itself are their own
//!   record, nodes belong to no organization, that a property column is there is seen in
//!   ClickHouse, and what `cleanup` deletes is written to the process's log.
//! - Personal keys, tokens of sessions and of links are stored as hashes only; their values exist
//!   only in the response, or the link, that created them.
//! - Every function behaves alike on both databases; every test runs on both.

#![forbid(unsafe_code)]

mod activity;
mod actor;
pub mod bounded_json;
mod catalog;
pub mod cleanup;
mod condition;
mod condition_locks;
mod connect;
mod copying;
pub mod database_clock;
pub mod email;
pub mod entities;
mod error;
mod examination;
pub mod features;
mod identity;
mod ingest_nodes;
pub mod key;
mod key_fingerprint;
pub mod leases;
mod level;
pub mod limits;
mod location;
mod migrations;
mod node_endpoints;
mod node_reports;
pub mod page;
mod patch;
mod person_watermark;
mod project_keys;
pub mod random;
mod scopes;
mod stale_sessions;
mod stored_json;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
pub mod transaction;

pub use self::time::UtcTime;
pub use activity::{Activity, ActivityChange, ActivityDetail, ActivityScope, AuditChange};
pub use actor::Actor;
pub use catalog::Catalog;
pub use condition_locks::{ConditionLocks, ConditionOutcome};
pub use copying::CopyError;
pub use email::email_key;
pub use entities::activity_log::Model as ActivityEntry;
pub use entities::batch_export_backfills::Model as BatchExportBackfill;
pub use entities::batch_export_logs::{LogLevel, Model as BatchExportLog};
pub use entities::batch_export_runs::{Model as BatchExportRun, RunStatus};
pub use entities::batch_exports::{DestinationType, ExportModel, Model as BatchExport};
pub use entities::clickhouse_users::Model as ClickHouseUser;
pub use entities::historical_migrations::{MigrationState, Model as HistoricalMigration};
pub use entities::ingest_nodes::{Model as IngestNode, NodeState};
pub use entities::node_endpoints::Model as NodeEndpoint;
pub use entities::organization_domains::Model as Domain;
pub use entities::organization_invites::{
    Model as InviteRecord, ProjectAccess, ProjectAccessLevel, ProjectAccesses,
};
pub use entities::organization_memberships::Model as Membership;
pub use entities::organizations::{FeatureKeys, Model as Organization};
pub use entities::personal_api_keys::{Model as PersonalKeyRecord, OrganizationIds};
pub use entities::plugin_configs::Model as PluginConfig;
pub use entities::plugins::{Model as Plugin, PluginType};
pub use entities::projects::Model as Project;
pub use entities::property_columns::{
    Model as PropertyColumnRecord, PropertyColumnType, PropertyPath,
};
pub use entities::proxy_records::{Model as ProxyRecord, ProxyStatus};
pub use entities::rejected_event_resends::Model as RejectedEventResend;
pub use entities::role_memberships::Model as RoleMembership;
pub use entities::roles::{FlagsAccess, Model as Role};
pub use entities::sessions::{Model as SessionRecord, SignInMethod};
pub use entities::users::Model as User;
pub use error::{CatalogError, ChangeError, Violation, is_duplicate};
pub use examination::Examination;
pub use features::{FEATURES, Feature};
pub use ingest_nodes::{
    NODE_SILENCE_MAX, NextStart, NodeStart, NodeStarts, Nodes, Published, RegisterError, Watermarks,
};
pub use level::Level;
pub use limits::CatalogLimits;
pub use millrace_rows::ProjectId;

/// Escaping of foreign texts before people are shown them, and which texts may have controls.
pub mod text {
    pub use millrace_rows::{CONTROL_CLASS, TAG_CLASS, is_control, shown, shown_json, shown_lines};

    /// Value of the schema extension `x-text` for texts that may have line ends and tabs.
    pub const LINES: &str = "lines";
    /// Value of the schema extension `x-text` for texts that may have all characters, which their
    /// consumer interprets.
    pub const ANY: &str = "any";
}
pub use cleanup::Cleanup;
pub use migrations::SchemaVersion;
pub use node_endpoints::NodeEndpoints;
pub use node_reports::{LOST_AFTER, Liveness, NodeReport, NodeReports, NodeStatus, SILENT_AFTER};
pub use page::{Page, PageRequest};
pub use patch::Patch;
pub use person_watermark::PersonWatermark;
pub use project_keys::{ListedKey, ProjectKey, ProjectKeys};
pub use scopes::{OPERATOR, RequiredScope, SCOPE_FAMILIES, ScopeError, Scopes};
pub use stored_json::StoredJson;
