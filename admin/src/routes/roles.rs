//! `/api/organizations/:organization_id/roles/`.

use super::role_memberships::RoleMemberBody;
use super::role_scopes::{FEATURE, READ, WRITE};
use super::users::UserBody;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_catalog::{FlagsAccess, Level, Page, UtcTime};
use millrace_organizations::{NewRole, RoleChange, RoleFilter, RoleView};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/roles/";
const ONE: &str = "/api/organizations/{organization_id}/roles/{id}/";
const TAKEN: &str = "Another role has this name, in whatever case.";

/// Operations of roles.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the roles of an organization")
            .note("Each role has the first 1 000 of its members.")
            .query("id", "string", "Only the role with this id.")
            .query("name", "string", "Only the role with exactly this name.")
            .query(
                "feature_flags_access_level",
                "integer",
                "Only roles with this access.",
            )
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Create a role")
            .limited_by(&[Limit::Roles])
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "unique", TAKEN),
        Operation::get(ONE, retrieve)
            .about("Read a role")
            .large_response()
            .scopes(&READ),
        Operation::patch(ONE, &["name"], update)
            .about("Change a role")
            .large_response()
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "unique", TAKEN),
        Operation::delete(ONE, delete)
            .about("Delete a role")
            .note("Its members stay members of the organization.")
            .scopes(&WRITE)
            .level(Level::Administrator),
    ]
}

/// A role of an organization, with its members.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Role")]
struct RoleBody {
    /// Id of the role.
    id: Uuid,
    /// Name of the role.
    name: String,
    feature_flags_access_level: FlagsAccess,
    /// Time of the creation.
    created_at: UtcTime,
    /// User who created the role; null if the operator did, or the user is deleted.
    created_by: Option<UserBody>,
    /// Members who have the role, in the order in which they got it: the first 1 000. The list of
    /// its memberships has all of them.
    members: Vec<RoleMemberBody>,
}

impl From<RoleView> for RoleBody {
    fn from(view: RoleView) -> Self {
        let role = view.role;
        Self {
            id: role.id,
            name: role.name,
            feature_flags_access_level: role.feature_flags_access_level,
            created_at: role.created_at,
            created_by: view.created_by.map(UserBody::from),
            members: view.members.into_iter().map(Into::into).collect(),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<RoleBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let filter = filter(&context);
    let read = async |page| match &filter {
        Some(filter) => context.roles().list(id, filter, page).await,
        None => Ok(Page {
            count: 0,
            rows: Vec::new(),
        }),
    };
    context.list(page, read).await
}

/// Filter of the query; `None` if no role can match it.
fn filter(context: &Context) -> Option<RoleFilter> {
    let id = context.query("id").map(|id| Uuid::parse_str(&id));
    let access = context.query("feature_flags_access_level");
    let access = access.map(|access| FlagsAccess::of(access.parse().ok()?));
    Some(RoleFilter {
        id: id.transpose().ok()?,
        name: context.query("name"),
        feature_flags_access_level: match access {
            Some(access) => Some(access?),
            None => None,
        },
    })
}

async fn retrieve(context: Context) -> Result<RoleBody, ApiError> {
    let (organization, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context.roles().get(organization, id).await?;
    found.map(RoleBody::from).ok_or_else(ApiError::not_found)
}

async fn create(context: Context, new: NewRole) -> Result<RoleBody, ApiError> {
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let made = context.roles().create(&actor, organization, new);
    Ok(made.await?.into())
}

async fn update(context: Context, change: RoleChange) -> Result<RoleBody, ApiError> {
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    let changed = context.roles().update(&actor, organization, id, change);
    Ok(changed.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    Ok(context.roles().delete(&actor, organization, id).await?)
}
