//! `/api/organizations/:organization_id/members/`.

use super::users::UserBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::level_number::LevelNumber;
use crate::operation::Operation;
use crate::page::Envelope;
use millrace_catalog::{Level, Patch, RequiredScope, UtcTime};
use millrace_organizations::{Member, Members};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/members/";
const ONE: &str = "/api/organizations/{organization_id}/members/{user_uuid}/";
/// Alias of the caller's UUID.
const ME: &str = "@me";
const READ: [RequiredScope; 1] = [RequiredScope::read("organization_member")];
const WRITE: [RequiredScope; 1] = [RequiredScope::write("organization_member")];

/// Operations of members.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the members of an organization")
            .note("In the order in which they joined.")
            .query(
                "email",
                "string",
                "Only the member with this address, in any case.",
            )
            .scopes(&READ),
        Operation::get(ONE, retrieve)
            .about("Read a member")
            .note("`@me` in place of the user's UUID is the caller.")
            .scopes(&READ),
        Operation::patch(ONE, &["level"], change)
            .about("Change the level of a member")
            .note(
                "Nobody changes their own level or that of a member above them, or gives a level \
                 above their own. An owner may make others owners; the last owner stays an owner.",
            )
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "The organization would have no owner."),
        Operation::delete(ONE, remove)
            .about("Remove a member")
            .note(
                "Members may leave. Administrators remove members and each other, owners remove \
                             anyone. The member's roles are removed, too; their keys stay and lose access.",
            )
            .scopes(&WRITE)
            .fails(400, "invalid_input", "The organization would have no owner."),
    ]
}

/// A member of an organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationMember")]
pub(super) struct MemberBody {
    /// Id of the membership.
    id: Uuid,
    /// Person who is the member.
    user: UserBody,
    level: LevelNumber,
    /// Time since which the person is a member.
    joined_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
    /// Always false: accounts have keys only.
    is_2fa_enabled: bool,
    /// Always false: accounts have keys only.
    has_social_auth: bool,
}

impl From<Member> for MemberBody {
    fn from(member: Member) -> Self {
        let membership = member.membership;
        Self {
            id: membership.id,
            user: member.user.into(),
            level: membership.level.into(),
            joined_at: membership.joined_at,
            updated_at: membership.updated_at,
            is_2fa_enabled: false,
            has_social_auth: false,
        }
    }
}

/// Fields of a membership to change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchOrganizationMember")]
#[serde(default)]
struct PatchBody {
    level: Patch<LevelNumber>,
}

async fn list(context: Context) -> Result<Envelope<MemberBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let email = context.query("email");
    let catalog = context.catalog();
    let read = |page| Members::new(catalog).list(id, email.as_deref(), page);
    context.list(page, read).await
}

async fn retrieve(context: Context) -> Result<MemberBody, ApiError> {
    let (id, user_uuid) = (context.organization_id()?, user_uuid(&context)?);
    let found = context.members().get(id, user_uuid).await?;
    found.map(MemberBody::from).ok_or_else(ApiError::not_found)
}

async fn change(context: Context, change: PatchBody) -> Result<MemberBody, ApiError> {
    let (id, user_uuid) = (context.organization_id()?, user_uuid(&context)?);
    let Patch::Value(LevelNumber(level)) = change.level else {
        return retrieve(context).await;
    };
    let actor = context.actor()?;
    let changed = context.members().set_level(&actor, id, user_uuid, level);
    Ok(changed.await?.into())
}

async fn remove(context: Context) -> Result<(), ApiError> {
    let (id, user_uuid) = (context.organization_id()?, user_uuid(&context)?);
    let actor = context.actor()?;
    Ok(context.members().remove(&actor, id, user_uuid).await?)
}

fn user_uuid(context: &Context) -> Result<Uuid, ApiError> {
    if context.text("user_uuid") == ME {
        return Ok(context.caller()?.user.uuid);
    }
    context.uuid("user_uuid")
}
