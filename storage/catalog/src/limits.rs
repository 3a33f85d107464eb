//! Limits of what an organization or a user may have: without them, one key could fill the catalog.

use crate::error::ChangeError;

/// Organizations that a user owns.
pub const OWNED_ORGANIZATIONS_MAX: u64 = 1_000;
/// Members of an organization, and so of a role.
pub const MEMBERS_MAX: u64 = 10_000;
/// Projects of an organization.
pub const PROJECTS_MAX: u64 = 1_500;
/// Domains that an organization claims.
pub const DOMAINS_MAX: u64 = 1_000;
/// Invites of an organization, with the expired ones, which stay in its list.
pub const INVITES_MAX: u64 = 10_000;
/// Roles of an organization.
pub const ROLES_MAX: u64 = 1_000;
/// Historical migrations that an organization requested.
pub const HISTORICAL_MIGRATIONS_MAX: u64 = 10_000;
/// Role memberships of an organization: they are deleted with it in one transaction.
pub const ROLE_MEMBERSHIPS_MAX: u64 = 50_000;
/// Proxy records of an organization: each is checked again and again.
pub const PROXY_RECORDS_MAX: u64 = 100;
/// Backfills of an export that have not ended.
pub const OPEN_BACKFILLS_MAX: u64 = 100;
/// Backfills of all exports of an organization that have not ended: each paused export may get one
/// when all are resumed.
pub const OPEN_BACKFILLS_OF_ORGANIZATION_MAX: u64 = 500;
/// Backfills of an export that have ended without runs: with more, the oldest is deleted.
pub const EMPTY_BACKFILLS_MAX: u64 = 1_000;
/// Bytes of stored responses to a user's requests with an idempotency key.
pub const RESPONSE_BYTES_PER_USER_MAX: u64 = 64 << 20;
/// Bytes of stored responses to such requests of all users in an organization.
pub const RESPONSE_BYTES_PER_ORGANIZATION_MAX: u64 = 256 << 20;
/// Bytes of stored responses that a user may have however many those of the others in an
/// organization are.
pub const RESPONSE_BYTES_RESERVED_PER_USER: u64 = 256 << 10;
/// Keys of a user that are in force.
pub const KEYS_PER_USER_MAX: u64 = 100;
/// Keys of a user that were revoked or have expired: with more, that which ended first is deleted.
pub const ENDED_KEYS_PER_USER_MAX: u64 = 1_000;
/// Sessions of a user: with more, that which was used least recently ends.
pub const SESSIONS_PER_USER_MAX: u64 = 20;
/// Links of a user that sign in: with more, the oldest stops working.
pub const SIGN_IN_LINKS_PER_USER_MAX: u64 = 5;

/// Property columns of a project, and as many for all projects.
pub const PROPERTY_COLUMNS_MAX: u64 = 20;
/// Property columns of an organization's projects: half of those that there may be.
pub const PROPERTY_COLUMNS_OF_ORGANIZATION_MAX: u64 = 50;
/// Property columns of all projects, beside those for all: each is a column of every part.
pub const PROPERTY_COLUMNS_OF_ALL_MAX: u64 = 100;
/// Bytes that the property columns of a project may take of an event, and as many those for all.
pub const PROPERTY_COLUMN_BYTES_MAX: u64 = 4 << 10;

/// Limits for each organization; 0 is any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogLimits {
    /// Batch exports of an organization.
    pub batch_exports_max: u64,
    /// Plugins that an organization has created or installed.
    pub plugins_max: u64,
}

impl Default for CatalogLimits {
    fn default() -> Self {
        Self {
            batch_exports_max: 200,
            plugins_max: 500,
        }
    }
}

/// Refuses one more item than a fixed limit allows.
///
/// # Errors
///
/// There are as many already.
pub fn must_have_fewer(who: &str, most: u64, what: &str, had: u64) -> Result<(), ChangeError> {
    if had < most {
        return Ok(());
    }
    let detail = format!("{who} has at most {most} {what}.");
    Err(ChangeError::forbidden(detail))
}

/// Refuses one more item than a setting of the server allows an organization.
///
/// # Errors
///
/// There are as many already.
pub fn must_be_within_setting(
    what: &str,
    setting: &str,
    had: u64,
    most: u64,
) -> Result<(), ChangeError> {
    if most == 0 || had < most {
        return Ok(());
    }
    let detail = format!(
        "An organization has at most {most} {what}. Delete one that is not needed, or ask the server's \
         operator for more ({setting})."
    );
    Err(ChangeError::invalid(None, "invalid_input", detail))
}
