//! The catalog: organizations, projects, users and keys in SQLite or PostgreSQL.
//!
//! | Module | Holds |
//! |---|---|
//! | `catalog` | [`Catalog`]: open, migrate, close; the change counter |
//! | `connect` | from a URL to a pool; what makes SQLite durable |
//! | `actor`, `activity` | who makes a change; the log of all changes |
//! | `bootstrap` | the first organization, project, owner and keys |
//! | `idempotency` | requests that are made once however often they are sent |
//! | `plugins` | the five views of plugins, their source, their use |
//! | `proxy_records` | domains that shall lead to us |
//! | `batch_exports` | what is exported where, and how it went |
//! | `secrets` | what must be read again, encrypted; no I/O |
//! | `ingest_nodes` | who takes events, and how far each has shipped |
//! | `persons` | persons and groups, and what events make of them |
//! | `historical_migrations` | imports: asked for, decided, counted |
//! | [`leases`] | what one process at a time does |
//! | `cleanup` | rows of deleted projects, organizations and batch exports |
//! | `invites` | inviting and accepting |
//! | `domains` | e-mail domains: claimed, proved, how their people log in |
//! | `roles` | names under which members are gathered |
//! | `organizations`, `members`, `users`, `projects`, `personal_keys` | what can be done with each |
//! | [`key`] | the form of keys; no I/O |
//! | `scopes`, `level`, `features` | what keys, members and organizations may do; no I/O |
//! | `limits` | how many exports and plugins an organization may have |
//! | `transaction` | how a change begins, decides and ends |
//! | `entities`, `migrations` | the tables and their history |
//! | `place` | where the database is, and what its errors mean |
//! | `error` | [`CatalogError`] for the operator, [`ChangeError`] for who asked |
//!
//! Invariants:
//!
//! - A change of anything that the ingestion path caches increments the `keys` counter in the
//!   same transaction; so whoever sees the new number sees the change.
//! - Every write takes an [`Actor`] and leaves an entry in the activity log, in the same transaction.
//!   Runs of batch exports that Millrace makes by itself are their own record; nodes are nobody's.
//! - Personal keys are kept as hashes only; their values exist in the answer that made them.
//! - Every function behaves alike on both databases; every test runs on both.

#![forbid(unsafe_code)]

mod activity;
mod actor;
mod batch_exports;
mod bootstrap;
mod catalog;
mod cleanup;
mod condition;
mod connect;
mod domains;
mod email;
mod entities;
mod error;
pub mod features;
mod historical_migrations;
mod idempotency;
mod ingest_nodes;
mod invites;
pub mod key;
pub mod leases;
mod level;
pub mod limits;
mod members;
mod migrations;
mod names;
mod organizations;
mod page;
mod personal_keys;
mod persons;
mod place;
mod plugins;
mod projects;
mod proxy_records;
mod random;
mod roles;
mod scopes;
mod secrets;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod transaction;
mod users;

pub use self::time::UtcTime;
pub use activity::{Activity, ActivityChange, ActivityDetail, ActivityFilter, ActivityScope};
pub use actor::Actor;
pub use batch_exports::{
    BACKFILL_RUNS_AHEAD, BackfillRange, BackfillTurns, BatchExportChange, CheckedDestination,
    ClaimedRun, DestinationChange, DestinationField, DestinationLimits, DestinationSpec,
    ExportInterval, ExportLogFilter, ExportPlace, ExportTurns, ExportWriter, FILE_FORMATS,
    FieldKind, FieldNeed, ForgottenRuns, IntervalError, NeededWhen, NewBatchExport, NewExportLog,
    NewRun, OpenBackfill, RunFilter, RunMark, RunOrder, RunOutcome, RunProgress, Sample,
    SeenBatchExport, Unpaused,
};
pub use bootstrap::{Bootstrap, BootstrapOptions};
pub use catalog::Catalog;
pub use condition::{ConditionLocks, Standing};
pub use domains::{DomainChange, NewDomain, SSO_ENFORCEMENTS};
pub use entities::activity_log::Model as ActivityEntry;
pub use entities::batch_export_backfills::Model as BatchExportBackfill;
pub use entities::batch_export_logs::{LogLevel, Model as BatchExportLog};
pub use entities::batch_export_runs::{Model as BatchExportRun, RunStatus};
pub use entities::batch_exports::{DestinationType, ExportModel, Model as BatchExport};
pub use entities::historical_migrations::{MigrationState, Model as HistoricalMigration};
pub use entities::ingest_nodes::{Model as IngestNode, NodeState};
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
pub use entities::proxy_records::{Model as ProxyRecord, ProxyStatus};
pub use entities::role_memberships::Model as RoleMembership;
pub use entities::roles::{FlagsAccess, Model as Role};
pub use entities::users::Model as User;
pub use error::{CatalogError, ChangeError, Violation};
pub use features::{FEATURES, Feature};
pub use historical_migrations::{
    HistoricalDecision, HistoricalGrant, LogPlace, NewHistoricalMigration, NodeLegacy,
    SliceDecision, SliceStand,
};
pub use idempotency::{IdempotencyClaim, KeptAnswer};
pub use ingest_nodes::{NextStart, NodeStart, NodeStarts, Published, RegisterError};
pub use invites::{Invite, InviteToken, Joined, NewInvite, OpenInvite, SentInvite};
pub use level::Level;
pub use limits::CatalogLimits;
pub use members::Member;
pub use millrace_rows::TeamId;

/// Texts of others as people may be shown them.
pub mod text {
    pub use millrace_rows::{CONTROL_CLASS, TAG_CLASS, is_control, shown, shown_json, shown_lines};
}
pub use organizations::{Access, MemberOrganization, NewOrganization, OrganizationChange};
pub use page::{Page, PageRequest};
pub use personal_keys::{Caller, CreatedPersonalKey, NewOwnKey, NewPersonalKey, OwnKeyChange};
pub use persons::{
    AppliedUpdates, ApplyOptions, ChangedGroup, ChangedId, ChangedPerson, LimitedProject,
    PersonBacklog, PersonProgress, PersonUpdate, Tally, UpdatePlace,
};
pub use plugins::{
    Family, FileChange, NewPlugin, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginCapabilities,
    PluginFields, PluginFiles, PluginRelease, PluginSetting, PluginUse, PluginWriter, SeenPlugin,
    SourceParseError, SourceParser, source_bytes,
};
pub use projects::{NewProject, ProjectChange, ProjectKey};
pub use proxy_records::SeenProxyRecord;
pub use roles::{NewRole, RoleChange, RoleFilter, RoleMember, SeenRole};
pub use scopes::{FAMILIES, Need, OPERATOR, ScopeError, Scopes};
pub use secrets::{SecretError, SecretKey};
pub use users::NewUser;
