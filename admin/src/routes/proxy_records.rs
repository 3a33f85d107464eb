//! `/api/organizations/:organization_id/proxy_records/`.

use super::users::UserBody;
use crate::context::Context;
use crate::domain_name;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::patch::Patch;
use crate::timestamp::Timestamp;
use millrace_catalog::{Feature, Level, Need, ProxyStatus, SeenProxyRecord, features};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/proxy_records/";
const ONE: &str = "/api/organizations/{organization_id}/proxy_records/{id}/";
const READ: [Need; 2] = [Need::read("proxy_record"), Need::read("organization")];
const WRITE: [Need; 2] = [Need::write("proxy_record"), Need::write("organization")];
const TAKEN: &str =
    "The organization has a record for the domain already, or that of another one works.";
/// Without it records can be read and deleted still.
const FEATURE: Feature = features::MANAGED_REVERSE_PROXY;

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the domains that shall lead to us")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Let a domain lead to us")
            .counted(&[Limit::ProxyRecords])
            .note(
                "Give the domain a CNAME record that leads to target_cname. An organization has \
                 at most 100 records.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "This is no domain name.")
            .fails(400, "unique", TAKEN),
        Operation::get(ONE, retrieve)
            .about("Read how far a domain is")
            .note("Its `ETag` is not of what checks find: `message`, `status`, `updated_at`.")
            .live_fields(&["message", "status", "updated_at"])
            .scopes(&READ),
        Operation::patch(ONE, &["domain"], update)
            .about("Change nothing")
            .note("A record has no field that changes; another domain needs another record.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "The domain is another one."),
        Operation::delete(ONE, delete)
            .about("Let a domain go")
            .scopes(&WRITE)
            .level(Level::Administrator),
    ]
}

/// What a record is made of.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewProxyRecord")]
struct NewBody {
    /// In any case, in any script.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    domain: String,
}

/// What is to be different: nothing can be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchProxyRecord")]
#[serde(default)]
struct PatchBody {
    /// The domain that it has.
    #[schemars(length(min = 1, max = 64), regex(pattern = r"\S"))]
    domain: Patch<String>,
}

/// How far a domain is.
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

/// A domain that shall lead to us.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProxyRecord")]
struct RecordBody {
    id: Uuid,
    /// Punycode, lower case.
    domain: String,
    /// What the domain's CNAME record must lead to.
    target_cname: String,
    status: StatusName,
    /// What is missing and what to do.
    message: Option<String>,
    created_at: Timestamp,
    updated_at: Timestamp,
    /// Who asked for it; null once they are gone.
    created_by: Option<UserBody>,
}

impl From<SeenProxyRecord> for RecordBody {
    fn from(seen: SeenProxyRecord) -> Self {
        let record = seen.record;
        Self {
            id: record.id,
            domain: record.domain,
            target_cname: record.target_cname,
            status: record.status.into(),
            message: record.message,
            created_at: record.created_at.into(),
            updated_at: record.updated_at.into(),
            created_by: seen.created_by.map(UserBody::from),
        }
    }
}

async fn list(context: Context) -> Result<Envelope<RecordBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.catalog().list_proxy_records(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<RecordBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let domain = normalized(&new.domain)?;
    let base_name = &context.services.config.proxy_base_name;
    let made = context
        .catalog()
        .create_proxy_record(&actor, id, &domain, base_name);
    Ok(made.await?.into())
}

async fn retrieve(context: Context) -> Result<RecordBody, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context.catalog().proxy_record(organization_id, id).await?;
    found.map(RecordBody::from).ok_or_else(ApiError::not_found)
}

async fn update(context: Context, patch: PatchBody) -> Result<RecordBody, ApiError> {
    let record = retrieve(context).await?;
    if let Some(domain) = patch.domain.sent()
        && normalized(&domain)? != record.domain
    {
        let detail = "The domain of a record never changes; make another record.";
        return Err(ApiError::invalid("invalid_input", Some("domain"), detail));
    }
    Ok(record)
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    Ok(context
        .catalog()
        .delete_proxy_record(&actor, organization_id, id)
        .await?)
}

fn normalized(domain: &str) -> Result<String, ApiError> {
    domain_name::normalized(domain).ok_or_else(|| {
        let detail = "Give a domain name such as events.example.com.";
        ApiError::invalid("invalid_input", Some("domain"), detail)
    })
}
