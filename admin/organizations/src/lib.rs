//! Organizations and what belongs to them, in the catalog: members, roles, invites, domains,
//! projects, personal keys, plugins.
//!
//! | Module | Holds |
//! |---|---|
//! | `organizations`, `members`, `users`, `projects`, `personal_keys` | operations on each |
//! | `caller` | who makes a request: a program with a key, or a person with a session |
//! | `sessions`, `secret_token` | links that sign in once, sessions of browsers; their secrets |
//! | `user_changes` | locks and audit entries of what belongs to a user |
//! | `roles` | named groups of members |
//! | `invites` | sending and accepting invites |
//! | `domains` | e-mail domains: claims, proofs, login rules |
//! | `proxy_records` | customers' domains that point to this installation |
//! | `historical_migrations` | imports: requests and decisions |
//! | `plugins` | the five families of plugins, their source, their use |
//! | `activity_log` | reading the log of all changes |
//! | `names` | validation of names and texts that people write; no I/O |
//! | `default_project` | project of a new resource that names none |
//! | `idempotency` | idempotency keys: a request is executed once, however often it is sent |
//! | `bootstrap` | the first organization, project, owner and keys |
//!
//! Operations on a resource are methods of a handle that borrows the catalog, as [`Roles`].
//!
//! Invariants:
//!
//! - Every write takes an [`Actor`](millrace_catalog::Actor) and leaves an entry in the activity
//!   log, in the same transaction.
//! - Permissions and features are checked within the transaction of the change, of the organization
//!   as it is locked.
//! - Personal keys and tokens are stored as hashes only; their values exist only in the response,
//!   or the link, that created them.
//! - Every function behaves alike on both databases; every test runs on both.

#![forbid(unsafe_code)]

mod activity_log;
mod bootstrap;
mod caller;
mod default_project;
mod domains;
mod historical_migrations;
mod idempotency;
mod invites;
mod members;
mod names;
mod organizations;
mod personal_keys;
mod plugins;
mod projects;
mod proxy_records;
mod roles;
mod secret_token;
mod sessions;
#[cfg(feature = "testing")]
pub mod testing;
mod user_changes;
mod users;

pub use activity_log::{ActivityFilter, ActivityLog};
pub use bootstrap::{Bootstrap, BootstrapOptions, bootstrap, is_bootstrapped};
pub use caller::{Caller, Credential};
pub use default_project::project_or_default;
pub use domains::{DomainChange, Domains, NewDomain, SSO_ENFORCEMENTS};
pub use historical_migrations::{
    HistoricalDecision, HistoricalGrant, HistoricalMigrations, NewHistoricalMigration,
};
pub use idempotency::{
    IdempotencyClaim, IdempotencyKeys, ResponseOwners, ResponsesFull, StoredResponse,
};
pub use invites::{Invite, Invites, Joined, NewInvite, OpenInvite, SentInvite};
pub use members::{Member, Members};
pub use names::checked_name;
pub use organizations::{
    Access, MemberOrganization, NewOrganization, OrganizationChange, Organizations,
    SwitchedFeatures,
};
pub use personal_keys::{
    CreatedPersonalKey, NewOwnKey, NewPersonalKey, OwnKeyChange, PersonalKeys,
};
pub use plugins::{
    FileChange, NewPlugin, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginCapabilities,
    PluginFamily, PluginFields, PluginFiles, PluginRelease, PluginUse, PluginView, PluginWriter,
    Plugins, SourceParseError, SourceParser, source_bytes,
};
pub use projects::{
    BegunResend, ClickHouseUsers, NewClickHouseLogin, NewProject, NewPropertyColumn, NewResend,
    ProjectChange, ProjectColumns, ProjectKeyChanges, Projects, PropertyColumns,
    PropertyColumnsChange, RejectedEventResends,
};
pub use proxy_records::{ProxyRecordView, ProxyRecords};
pub use roles::{NewRole, RoleChange, RoleFilter, RoleMember, RoleView, Roles};
pub use secret_token::SecretToken;
pub use sessions::{CreatedLink, OpenedSession, SESSION_LIFETIME, SIGN_IN_LINK_LIFETIME, Sessions};
pub use users::{NewUser, Users};
