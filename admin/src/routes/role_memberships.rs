//! `/api/organizations/:organization_id/roles/:role_id/role_memberships/`.

use super::members::MemberBody;
use super::role_scopes::{FEATURE, READ, WRITE};
use super::users::UserBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_catalog::{Level, UtcTime};
use millrace_organizations::RoleMember;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/roles/{role_id}/role_memberships/";
const ONE: &str = "/api/organizations/{organization_id}/roles/{role_id}/role_memberships/{id}/";
const NO_MEMBER: &str = "The user is not a member of the organization, or has the role already.";

/// Operations of the members who have a role.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the members who have a role")
            .note("In the order in which they got it.")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Give a member a role")
            .limited_by(&[Limit::RoleMembers])
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", NO_MEMBER),
        Operation::get(ONE, retrieve)
            .about("Read the role of a member")
            .scopes(&READ),
        Operation::delete(ONE, delete)
            .about("Take a role from a member")
            .scopes(&WRITE)
            .level(Level::Administrator),
    ]
}

/// User who gets a role.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewRoleMembership")]
struct NewBody {
    /// UUID of the user, not of the membership.
    user_uuid: Uuid,
}

/// A member who has a role.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "RoleMembership")]
pub(super) struct RoleMemberBody {
    /// Id of the membership in the role.
    id: Uuid,
    /// Id of the role.
    role_id: Uuid,
    /// Membership in the organization.
    organization_member: MemberBody,
    /// Person who has the role.
    user: UserBody,
    /// Time since which the person has the role.
    joined_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
}

impl From<RoleMember> for RoleMemberBody {
    fn from(found: RoleMember) -> Self {
        Self {
            id: found.record.id,
            role_id: found.record.role_id,
            user: found.member.user.clone().into(),
            organization_member: found.member.into(),
            joined_at: found.record.joined_at,
            updated_at: found.record.updated_at,
        }
    }
}

async fn list(context: Context) -> Result<Envelope<RoleMemberBody>, ApiError> {
    let (organization, role) = (context.organization_id()?, context.uuid("role_id")?);
    let read = async |page| {
        let found = context.roles().members(organization, role, page);
        found.await?.ok_or_else(ApiError::not_found)
    };
    context.list(context.page(), read).await
}

async fn retrieve(context: Context) -> Result<RoleMemberBody, ApiError> {
    let (organization, role) = (context.organization_id()?, context.uuid("role_id")?);
    let id = context.uuid("id")?;
    let found = context.roles().member(organization, role, id).await?;
    found.map(Into::into).ok_or_else(ApiError::not_found)
}

async fn create(context: Context, new: NewBody) -> Result<RoleMemberBody, ApiError> {
    let (organization, role) = (context.organization_id()?, context.uuid("role_id")?);
    let (actor, user) = (context.actor()?, new.user_uuid);
    let added = context.roles().add_member(&actor, organization, role, user);
    Ok(added.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (organization, role) = (context.organization_id()?, context.uuid("role_id")?);
    let (actor, id) = (context.actor()?, context.uuid("id")?);
    let removed = context
        .roles()
        .remove_member(&actor, organization, role, id);
    Ok(removed.await?)
}
