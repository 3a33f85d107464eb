//! `/api/organizations/:organization_id/proxy_records/`.

use super::users::UserBody;
use crate::context::Context;
use crate::domain_name;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_catalog::{Feature, Level, Patch, ProxyStatus, RequiredScope, UtcTime, features};
use millrace_organizations::ProxyRecordView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/proxy_records/";
const ONE: &str = "/api/organizations/{organization_id}/proxy_records/{id}/";
const READ: [RequiredScope; 2] = [
    RequiredScope::read("proxy_record"),
    RequiredScope::read("organization"),
];
const WRITE: [RequiredScope; 2] = [
    RequiredScope::write("proxy_record"),
    RequiredScope::write("organization"),
];
const TAKEN: &str =
    "The organization has a record for the domain already, or that of another one works.";
/// Feature for adding records. Without it they can still be read and deleted.
const FEATURE: Feature = features::MANAGED_REVERSE_PROXY;

/// Operations of proxy records.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the domains of managed reverse proxies")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Add a domain for a managed reverse proxy")
            .limited_by(&[Limit::ProxyRecords])
            .note(
                "Then give the domain a CNAME record that leads to `target_cname`. An organization \
                             has at most 100 records.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "This is not a domain name.")
            .fails(400, "unique", TAKEN),
        Operation::get(ONE, retrieve)
            .about("Read the progress of a domain")
            .note("Its `ETag` leaves out the results of checks: `message`, `status`, `updated_at`.")
            .live_fields(&["message", "status", "updated_at"])
            .scopes(&READ),
        Operation::patch(ONE, &["domain"], update)
            .about("Confirm a record; nothing changes")
            .note("No field of a record can be changed; another domain needs another record.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(
                400,
                "invalid_input",
                "The domain differs from the record's.",
            ),
        Operation::delete(ONE, delete)
            .about("Remove a domain")
            .scopes(&WRITE)
            .level(Level::Administrator),
    ]
}

/// Fields of a new proxy record.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewProxyRecord")]
struct NewBody {
    /// Domain name, in any case and any script.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    domain: String,
}

/// Fields of a proxy record; none can be changed.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchProxyRecord")]
#[serde(default)]
struct PatchBody {
    /// Domain of the record.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    domain: Patch<String>,
}

/// Progress of a domain.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ProxyRecordStatus")]
enum StatusName {
    Waiting,
    Issuing,
    Valid,
    Warning,
    Erroring,
    TimedOut,
    Deleting,
}

impl From<ProxyStatus> for StatusName {
    fn from(status: ProxyStatus) -> Self {
        match status {
            ProxyStatus::Waiting => Self::Waiting,
            ProxyStatus::Issuing => Self::Issuing,
            ProxyStatus::Valid => Self::Valid,
            ProxyStatus::Warning => Self::Warning,
            ProxyStatus::Erroring => Self::Erroring,
            ProxyStatus::TimedOut => Self::TimedOut,
            ProxyStatus::Deleting => Self::Deleting,
        }
    }
}

/// A domain that leads to a managed reverse proxy.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProxyRecord")]
struct RecordBody {
    /// Id of the record.
    id: Uuid,
    /// Domain name in Punycode, lower case.
    domain: String,
    /// Target that the domain's CNAME record must have.
    target_cname: String,
    /// Progress of the domain.
    status: StatusName,
    /// Missing step and how to do it; null if nothing is missing.
    message: Option<String>,
    /// Time of the creation.
    created_at: UtcTime,
    /// Time of the last change.
    updated_at: UtcTime,
    /// User who added the domain; null once the user is deleted.
    created_by: Option<UserBody>,
}

impl From<ProxyRecordView> for RecordBody {
    fn from(view: ProxyRecordView) -> Self {
        let record = view.record;
        Self {
            id: record.id,
            domain: record.domain,
            target_cname: record.target_cname,
            status: record.status.into(),
            message: record.message,
            created_at: record.created_at,
            updated_at: record.updated_at,
            created_by: view.created_by.map(UserBody::from),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<RecordBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.proxy_records().list(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<RecordBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let domain = normalized(&new.domain)?;
    let base_name = &context.services.config.proxy_base_name;
    let made = context
        .proxy_records()
        .create(&actor, id, &domain, base_name);
    Ok(made.await?.into())
}

async fn retrieve(context: Context) -> Result<RecordBody, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context.proxy_records().get(organization_id, id).await?;
    found.map(RecordBody::from).ok_or_else(ApiError::not_found)
}

async fn update(context: Context, patch: PatchBody) -> Result<RecordBody, ApiError> {
    let record = retrieve(context).await?;
    if let Some(domain) = patch.domain.sent()
        && normalized(&domain)? != record.domain
    {
        let detail = "The domain of a record never changes; create another record.";
        return Err(ApiError::invalid("invalid_input", Some("domain"), detail));
    }
    Ok(record)
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    Ok(context
        .proxy_records()
        .delete(&actor, organization_id, id)
        .await?)
}

fn normalized(domain: &str) -> Result<String, ApiError> {
    domain_name::normalized(domain).ok_or_else(|| {
        let detail = "Give a domain name such as events.example.com.";
        ApiError::invalid("invalid_input", Some("domain"), detail)
    })
}
