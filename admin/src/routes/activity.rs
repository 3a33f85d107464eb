//! `/api/organizations/:organization_id/activity/`, and the entries of all activity lists.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::Operation;
use crate::page::Envelope;
use millrace_catalog::{
    ActivityChange, ActivityEntry, ActivityScope, RequiredScope, UtcTime, features,
};
use millrace_organizations::ActivityFilter;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/activity/";
const READ: [RequiredScope; 2] = [
    RequiredScope::read("activity_log"),
    RequiredScope::read("organization"),
];

/// Operations of the activity log.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List who changed what, newest first")
            .query(
                "scopes",
                "string",
                "Only these kinds, with commas between them.",
            )
            .query(
                "item_id",
                "string",
                "Only changes of the resource with this id.",
            )
            .scopes(&READ)
            .feature(features::AUDIT_LOGS),
    ]
}

/// A change in the activity log.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActivityLogEntry {
    /// Id of the entry.
    id: Uuid,
    /// Id of the organization in which the change was made.
    organization_id: Option<Uuid>,
    /// Person who made the change.
    user: ActivityUser,
    /// `created`, `updated`, `deleted`, `installed`, `uninstalled`, `enabled`, `disabled` or
    /// `config_updated`.
    activity: String,
    /// Kind of the changed resource, such as `Project`.
    scope: String,
    /// Id of the changed resource, as paths have it.
    item_id: String,
    /// Changed resource and its fields.
    detail: ActivityLogDetail,
    /// True if the system made the change, not a person.
    is_system: bool,
    /// Time of the change.
    created_at: UtcTime,
}

/// Person who made a change, with the name and address of that time.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityUser {
    /// First name; may be empty.
    first_name: String,
    /// Address; null for the system.
    email: Option<String>,
}

/// Details of a change.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityLogDetail {
    /// Id of the resource, as in `item_id`.
    id: Option<String>,
    /// Name of the resource at that time.
    name: String,
    /// Always null: no resource has a short id.
    short_id: Option<String>,
    /// Always null: no resource has types.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Fields that changed.
    changes: Vec<ActivityFieldChange>,
    /// Always null: resources are not merged.
    merge: Option<Value>,
    /// Always null: no job makes changes.
    trigger: Option<Value>,
}

/// A field that changed. Secrets are left out.
#[derive(Debug, Serialize, JsonSchema)]
struct ActivityFieldChange {
    /// Kind of the changed resource.
    #[serde(rename = "type")]
    kind: String,
    /// `created`, `changed` or `deleted`.
    action: String,
    /// Name of the field.
    field: String,
    /// Value before the change; null if there was none.
    before: Option<Value>,
    /// Value after the change; null if there is none.
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
            created_at: entry.created_at,
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

/// Reads a page of the entries of the path's organization, of some kinds or of one resource.
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
    let read = |page| context.activity_log().list(&filter, page);
    context.list(context.page(), read).await
}

async fn list(context: Context) -> Result<Envelope<ActivityLogEntry>, ApiError> {
    let asked = context.query("scopes").or_else(|| context.query("scope"));
    let names = asked
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .map(str::trim);
    // Unknown kinds are ignored, as invalid parameters are in every list.
    let scopes = names.filter_map(ActivityScope::of).collect();
    entries(&context, scopes, context.query("item_id")).await
}
