//! Policy for managing keys by keys: a key creates and changes only keys that fit within its own
//! constraints.

use super::KeyConstraints;
use crate::caller::Caller;
use millrace_catalog::entities::organization_memberships as memberships;
use millrace_catalog::entities::personal_api_keys::OrganizationIds;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{ChangeError, Scopes};
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, PaginatorTrait, QueryFilter};

/// Normalises a list of organizations. An empty list means all, as in other services: a key for no
/// organization would be useless.
pub(super) fn some_organizations(ids: Option<Vec<Uuid>>) -> Option<OrganizationIds> {
    let mut ids = ids.filter(|ids| !ids.is_empty())?;
    ids.sort_unstable();
    ids.dedup();
    Some(OrganizationIds(ids))
}

/// Refuses constraints beyond those of the caller's key.
pub(super) fn must_fit(own: &KeyConstraints, other: &KeyConstraints) -> Result<(), ChangeError> {
    let organizations = match (&own.scoped_organizations, &other.scoped_organizations) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(other)) => other.0.iter().all(|id| own.0.contains(id)),
    };
    let in_time = match (own.expires_at, other.expires_at) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(other)) => other <= own,
    };
    let detail = if !own.scopes.cover(&other.scopes) {
        "That key has scopes that this one lacks; use a key that has them."
    } else if !organizations {
        "That key sees organizations that this one does not; use a key that does."
    } else if !in_time {
        "That key works for longer than this one; use a key that does."
    } else {
        return Ok(());
    };
    Err(ChangeError::forbidden(detail))
}

/// Refuses the operator scope: such keys are created on the command line only.
pub(super) fn must_not_operate(scopes: &Scopes) -> Result<(), ChangeError> {
    if scopes.operate() {
        let detail = "The scope operator is issued on the command line only: millrace keys create.";
        return Err(ChangeError::forbidden(detail));
    }
    Ok(())
}

/// Refuses organizations that the caller is no member of, whether they exist or not.
pub(super) async fn must_be_organizations_of(
    within: &DatabaseTransaction,
    caller: &Caller,
    constraints: &KeyConstraints,
) -> Result<(), Abort> {
    let Some(only) = &constraints.scoped_organizations else {
        return Ok(());
    };
    let own = memberships::Entity::find()
        .filter(memberships::Column::UserId.eq(caller.user.id))
        .filter(memberships::Column::OrganizationId.is_in(only.0.iter().copied()))
        .count(within)
        .await?;
    if own == only.0.len() as u64 {
        return Ok(());
    }
    let detail = "Name organizations that you are a member of.";
    Err(ChangeError::invalid("scoped_organizations", "invalid_input", detail).into())
}
