//! `/api/organizations/`.

use super::projects::ProjectItem;
use super::{iso8601, organization};
use crate::api::{Request, answer, request};
use crate::auth::authenticate;
use crate::error::ApiError;
use crate::page::{Envelope, requested};
use millrace_catalog::{Catalog, MemberOrganization, Need};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use warp::reply::Response;
use warp::{Filter, Rejection};

const READ: Need = Need::read("organization");

/// An organization as the API shows it.
#[derive(Debug, Serialize)]
struct OrganizationBody {
    id: Uuid,
    name: String,
    slug: String,
    created_at: String,
    updated_at: String,
    membership_level: i16,
    plugins_access_level: i16,
    teams: Vec<ProjectItem>,
    available_product_features: Vec<Value>,
    is_member_join_email_enabled: bool,
    /// JSON in a string: the contract's type for it.
    metadata: String,
    customer_id: Option<String>,
    enforce_2fa: Option<bool>,
    members_can_write_pipelines: bool,
    /// A number in a string: the contract's type for it.
    member_count: String,
}

impl From<MemberOrganization> for OrganizationBody {
    fn from(seen: MemberOrganization) -> Self {
        let organization = seen.organization;
        Self {
            id: organization.id,
            name: organization.name,
            slug: organization.slug,
            created_at: iso8601(organization.created_at),
            updated_at: iso8601(organization.updated_at),
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

/// The routes of this resource.
pub(crate) fn routes(
    catalog: Catalog,
) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    collection(catalog.clone()).or(single(catalog)).unify()
}

/// GET /api/organizations/
fn collection(catalog: Catalog) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api" / "organizations")
        .and(request(catalog))
        .then(|request: Request| async move { answer(list(&request).await) })
}

/// GET /api/organizations/:id/
fn single(catalog: Catalog) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::path!("api" / "organizations" / String)
        .and(request(catalog))
        .then(|id: String, request: Request| async move { answer(retrieve(&id, &request).await) })
}

async fn list(request: &Request) -> Result<Envelope<OrganizationBody>, ApiError> {
    let caller = authenticate(&request.catalog, &request.headers, &[READ]).await?;
    request.must_read()?;
    let page = requested(&request.uri);
    let found = request.catalog.organizations_of(&caller, page).await?;
    let results = found.rows.into_iter().map(OrganizationBody::from).collect();
    Ok(Envelope::new(request, page, found.count, results))
}

async fn retrieve(id: &str, request: &Request) -> Result<OrganizationBody, ApiError> {
    let caller = authenticate(&request.catalog, &request.headers, &[READ]).await?;
    request.must_read()?;
    let found = organization(&request.catalog, &caller, id).await?;
    Ok(found.into())
}
