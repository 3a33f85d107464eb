//! `/api/organizations/`.

use super::projects::ProjectItem;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use crate::timestamp::Timestamp;
use millrace_catalog::{MemberOrganization, Need};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const ALL: &str = "/api/organizations/";
const ONE: &str = "/api/organizations/{organization_id}/";
const READ: [Need; 1] = [Need::read("organization")];

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the organizations that the key sees")
            .scopes(&READ),
        Operation::get(ONE, retrieve)
            .about("Read an organization")
            .scopes(&READ),
    ]
}

/// An organization.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Organization")]
struct OrganizationBody {
    id: Uuid,
    name: String,
    /// Made of the name when it was created.
    slug: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// The caller's: 1 member, 8 administrator, 15 owner.
    membership_level: i16,
    /// 0 none, 3 configure, 6 install, 9 root.
    plugins_access_level: i16,
    /// Its projects.
    teams: Vec<ProjectItem>,
    available_product_features: Vec<Value>,
    is_member_join_email_enabled: bool,
    /// JSON in a string.
    metadata: String,
    customer_id: Option<String>,
    enforce_2fa: Option<bool>,
    /// Whether members below administrator may change exports and plugins.
    members_can_write_pipelines: bool,
    /// A number in a string.
    member_count: String,
}

impl From<MemberOrganization> for OrganizationBody {
    fn from(seen: MemberOrganization) -> Self {
        let organization = seen.organization;
        Self {
            id: organization.id,
            name: organization.name,
            slug: organization.slug,
            created_at: organization.created_at.into(),
            updated_at: organization.updated_at.into(),
            membership_level: seen.membership_level.number(),
            plugins_access_level: organization.plugins_access_level,
            teams: seen.projects.into_iter().map(ProjectItem::from).collect(),
            available_product_features: Vec::new(),
            is_member_join_email_enabled: organization.is_member_join_email_enabled,
            metadata: r#"{"instance_tag":null}"#.to_owned(),
            customer_id: organization.customer_id,
            enforce_2fa: organization.enforce_2fa,
            members_can_write_pipelines: organization.members_can_write_pipelines,
            member_count: seen.member_count.to_string(),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<OrganizationBody>, ApiError> {
    let page = context.page();
    let found = context
        .catalog()
        .organizations_of(context.caller()?, page)
        .await?;
    Ok(context.envelope(page, found))
}

async fn retrieve(context: Context) -> Result<OrganizationBody, ApiError> {
    let (caller, id) = (context.caller()?, context.organization_id()?);
    let found = context.catalog().organization_of(caller, id).await?;
    found
        .map(OrganizationBody::from)
        .ok_or_else(ApiError::not_found)
}
