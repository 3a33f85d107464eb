//! `/api/organizations/:organization_id/activity/`, and the entries of every other activity list.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use crate::timestamp::Timestamp;
use millrace_catalog::{
    ActivityChange, ActivityEntry, ActivityFilter, ActivityScope, Need, features,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/activity/";
const READ: [Need; 2] = [Need::read("activity_log"), Need::read("organization")];

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List who changed what, newest first")
            .query(
                "scopes",
                "string",
                "Only these kinds, with commas between them.",
            )
            .query("item_id", "string", "Only of the thing with this id.")
            .scopes(&READ)
            .feature(features::AUDIT_LOGS),
    ]
}

/// A change that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActivityLogEntry {
    id: Uuid,
    organization_id: Option<Uuid>,
    user: ActivityUser,
    /// `created`, `updated`, `deleted`, `installed`, `uninstalled`, `enabled`, `disabled` or
    /// `config_updated`.
    activity: String,
    /// What kind of thing it is about.
    scope: String,
    /// Which thing: its id in paths.
    item_id: String,
    detail: ActivityLogDetail,
    /// Whether no person did it.
    is_system: bool,
    created_at: Timestamp,
}

/// Who made it, as they were then.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityUser {
    first_name: String,
    email: Option<String>,
}

/// What it was.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityLogDetail {
    id: Option<String>,
    /// What people called the thing then.
    name: String,
    short_id: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    changes: Vec<ActivityFieldChange>,
    merge: Option<Value>,
    trigger: Option<Value>,
}

/// A field that changed. Secrets are not in it.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityFieldChange {
    /// The kind of thing.
    #[serde(rename = "type")]
    kind: String,
    /// `created`, `changed` or `deleted`.
    action: String,
    field: String,
    before: Option<Value>,
    after: Option<Value>,
}

impl From<ActivityEntry> for ActivityLogEntry {
    fn from(entry: ActivityEntry) -> Self {
        let changes = entry.detail.changes.into_iter();
        Self {
            id: entry.id,
            organization_id: entry.organization_id,
            user: ActivityUser {
                first_name: entry.actor_name,
                email: entry.actor_email,
            },
            activity: entry.activity.name(),
            scope: entry.scope.name(),
            detail: ActivityLogDetail {
                id: Some(entry.item_id.clone()),
                name: entry.detail.name,
                short_id: None,
                kind: None,
                changes: changes.map(ActivityFieldChange::from).collect(),
                merge: None,
                trigger: None,
            },
            item_id: entry.item_id,
            is_system: entry.user_id.is_none(),
            created_at: entry.created_at.into(),
        }
    }
}

impl From<ActivityChange> for ActivityFieldChange {
    fn from(change: ActivityChange) -> Self {
        Self {
            kind: change.kind,
            action: change.action,
            field: change.field,
            before: Some(change.before),
            after: Some(change.after),
        }
    }
}

/// A page of the entries of the path's organization: of some kinds, or of one thing.
///
/// # Errors
///
/// 404 if the path names no organization, 503 if the catalog does not answer.
pub(crate) async fn entries(
    context: &Context,
    scopes: Vec<ActivityScope>,
    item_id: Option<String>,
) -> Result<Envelope<ActivityLogEntry>, ApiError> {
    let filter = ActivityFilter {
        organization_id: context.organization_id()?,
        scopes,
        item_id,
    };
    let read = |page| context.catalog().list_activity(&filter, page);
    context.list(context.page(), read).await
}

async fn list(context: Context) -> Result<Envelope<ActivityLogEntry>, ApiError> {
    let asked = context.query("scopes").or_else(|| context.query("scope"));
    let names = asked
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    // What cannot be used counts as not given, as in every list.
    let scopes = names.filter_map(ActivityScope::of).collect();
    entries(&context, scopes, context.query("item_id")).await
}
