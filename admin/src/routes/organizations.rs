//! `/api/organizations/`.

use super::projects::ProjectItem;
use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_catalog::{Feature, Level, RequiredScope, UtcTime};
use millrace_organizations::{MemberOrganization, NewOrganization, OrganizationChange};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

const ALL: &str = "/api/organizations/";
const ONE: &str = "/api/organizations/{organization_id}/";
const READ: [RequiredScope; 1] = [RequiredScope::read("organization")];
const WRITE: [RequiredScope; 1] = [RequiredScope::write("organization")];
const GATED: &str = "Enforcing a second factor needs the feature `2fa_enforcement`; keeping members \
                     from pipelines needs `organization_security_settings`.";

const SHARED: &str = "Other organizations use plugins of this one.";
const WITHDRAWN: &str = "A plugin of this organization was global, and is being removed from the projects \
                         of other organizations.";

/// Operations of organizations.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the organizations that the key can access")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Create an organization")
            .limited_by(&[Limit::Organizations])
            .note("The caller becomes the owner. A project \"Default project\" is created with it.")
            .scopes(&WRITE)
            .fails(
                403,
                "permission_denied",
                "The key is limited to some organizations.",
            ),
        Operation::get(ONE, retrieve)
            .about("Read an organization")
            .note("Its `ETag` leaves out `member_count`, `membership_level` and `teams`.")
            .live_fields(&["member_count", "membership_level", "teams"])
            .large_response()
            .scopes(&READ),
        Operation::patch(ONE, &["name"], update)
            .about("Change an organization")
            .large_response()
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(403, "payment_required", GATED),
        Operation::delete(ONE, delete)
            .about("Delete an organization and everything in it")
            .note("Its events stay in ClickHouse until the operator purges them.")
            .scopes(&WRITE)
            .level(Level::Owner)
            .fails(400, "invalid_input", SHARED)
            .fails(503, "unavailable", WITHDRAWN),
    ]
}

/// An organization as the caller sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Organization")]
struct OrganizationBody {
    /// Id of the organization.
    id: Uuid,
    /// Name of the organization.
    name: String,
    /// Short name for addresses, derived from the name at creation.
    slug: String,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
    /// Level of the caller: 1 member, 8 administrator, 15 owner.
    membership_level: i16,
    /// Access of the organization to plugins: 0 none, 3 configure, 6 install, 9 root.
    plugins_access_level: i16,
    /// Projects of the organization.
    teams: Vec<ProjectItem>,
    /// Features that the organization may use.
    available_product_features: Vec<ProductFeature>,
    /// True if members get a mail when somebody joins.
    is_member_join_email_enabled: bool,
    /// Metadata as JSON in a string.
    metadata: String,
    /// Id of the customer in billing.
    customer_id: Option<String>,
    /// True if front ends must require a second factor; null: not decided.
    enforce_2fa: Option<bool>,
    /// True if members below administrator may change exports and plugins.
    members_can_write_pipelines: bool,
    /// Number of members, as a string.
    member_count: String,
}

impl From<MemberOrganization> for OrganizationBody {
    fn from(view: MemberOrganization) -> Self {
        let organization = view.organization;
        let features = organization.features().map(ProductFeature::from);
        let features = features.collect();
        Self {
            id: organization.id,
            name: organization.name,
            slug: organization.slug,
            created_at: organization.created_at,
            updated_at: organization.updated_at,
            membership_level: view.membership_level.number(),
            plugins_access_level: organization.plugins_access_level,
            teams: view.projects.into_iter().map(ProjectItem::from).collect(),
            available_product_features: features,
            is_member_join_email_enabled: organization.is_member_join_email_enabled,
            metadata: r#"{"instance_tag":null}"#.to_owned(),
            customer_id: organization.customer_id,
            enforce_2fa: organization.enforce_2fa,
            members_can_write_pipelines: organization.members_can_write_pipelines,
            member_count: organization.member_count.to_string(),
        }
    }
}

/// A feature that an organization may use.
#[derive(Debug, Serialize, JsonSchema)]
struct ProductFeature {
    /// Key of the feature, as errors name it.
    key: &'static str,
    /// Name of the feature.
    name: &'static str,
    /// Description of the feature.
    description: &'static str,
    /// Always null: no feature is counted.
    unit: Option<String>,
    /// Always null: no feature is counted.
    limit: Option<u64>,
    /// Always null.
    note: Option<String>,
    /// Always true: there are no plans.
    is_plan_default: bool,
}

impl From<&'static Feature> for ProductFeature {
    fn from(feature: &'static Feature) -> Self {
        Self {
            key: feature.key,
            name: feature.name,
            description: feature.description,
            unit: None,
            limit: None,
            note: None,
            is_plan_default: true,
        }
    }
}

async fn list(context: Context) -> Result<Envelope<OrganizationBody>, ApiError> {
    let caller = context.caller()?;
    let read = |page| context.organizations().list_of(caller, page);
    context.list(context.page(), read).await
}

async fn create(context: Context, new: NewOrganization) -> Result<OrganizationBody, ApiError> {
    let caller = context.caller()?;
    if caller.scoped_organizations.is_some() {
        let detail = "This key is limited to some organizations, so it cannot create another one.";
        return Err(ApiError::forbidden(detail));
    }
    let (actor, owner) = (context.actor()?, Some(caller.user.id));
    let made = context.organizations().create(&actor, new, owner);
    organization_body(&context, made.await?.id).await
}

async fn retrieve(context: Context) -> Result<OrganizationBody, ApiError> {
    organization_body(&context, context.organization_id()?).await
}

async fn update(
    context: Context,
    change: OrganizationChange,
) -> Result<OrganizationBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let changed = context.organizations().update(&actor, id, change);
    changed.await?;
    organization_body(&context, id).await
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    Ok(context.organizations().delete(&actor, id).await?)
}

/// Reads an organization as the caller sees it.
async fn organization_body(context: &Context, id: Uuid) -> Result<OrganizationBody, ApiError> {
    let found = context
        .organizations()
        .get_of(context.caller()?, id)
        .await?;
    let found = found.map(OrganizationBody::from);
    found.ok_or_else(ApiError::not_found)
}
