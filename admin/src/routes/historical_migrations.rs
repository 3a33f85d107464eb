//! `/api/organizations/:organization_id/historical_migrations/`.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use millrace_catalog::{
    Feature, HistoricalMigration, Level, MigrationState, Patch, RequiredScope, UtcTime, features,
};
use millrace_organizations::{HistoricalDecision, NewHistoricalMigration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/historical_migrations/";
const ONE: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/";
const APPROVE: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/approve/";
const REJECT: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/reject/";
const READ: [RequiredScope; 1] = [RequiredScope::read("historical_migration")];
const WRITE: [RequiredScope; 1] = [RequiredScope::write("historical_migration")];
/// Feature for requesting imports. Without it they can still be read and ended.
const FEATURE: Feature = features::HISTORICAL_MIGRATIONS;

/// Operations of historical migrations.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the requested imports")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Request an import beyond the limits that apply to everyone")
            .limited_by(&[Limit::HistoricalMigrations])
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(
                400,
                "invalid_input",
                "The project is not one of the organization's.",
            ),
        Operation::get(ONE, retrieve)
            .about("Read the progress of an import")
            .note(
                "Its `ETag` leaves out `events_imported`. It changes with `state`, also when an \
                             import finishes by itself, so `If-None-Match` shows that.",
            )
            .live_fields(&["events_imported"])
            .scopes(&READ),
        Operation::patch(ONE, &["state"], update)
            .about("End an import")
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "The import was rejected."),
        Operation::action(APPROVE, approve)
            .about("Approve an import of any organization, with the requested numbers")
            .operator()
            .fails(400, "invalid_input", "The import is finished."),
        Operation::action(REJECT, reject)
            .about("Reject an import of any organization")
            .operator()
            .fails(400, "invalid_input", "The import is finished."),
    ]
}

/// Fields of an import to change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchHistoricalMigration")]
#[serde(default)]
struct PatchBody {
    /// New state: the import is done, or given up.
    state: Patch<EndState>,
}

/// State that the organization may set.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EndState {
    Finished,
}

/// Decision of the operator on an import.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "HistoricalMigrationDecision")]
#[serde(default)]
struct DecisionBody {
    /// Note for the organization that requested the import.
    note: Patch<Option<String>>,
}

/// State of an import.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "HistoricalMigrationState")]
enum StateName {
    Requested,
    Approved,
    Rejected,
    Finished,
}

impl From<MigrationState> for StateName {
    fn from(state: MigrationState) -> Self {
        match state {
            MigrationState::Requested => Self::Requested,
            MigrationState::Approved => Self::Approved,
            MigrationState::Rejected => Self::Rejected,
            MigrationState::Finished => Self::Finished,
        }
    }
}

/// An import of past events that an organization requested.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoricalMigration")]
struct MigrationBody {
    /// Id of the request.
    id: Uuid,
    /// Id of the project that gets the events.
    team_id: i64,
    /// Source of the events, for people.
    source: String,
    /// Method of the import, for people.
    method: String,
    /// Most events in all.
    total_events: i64,
    /// Most events in a minute.
    events_per_minute: i64,
    /// State of the import.
    state: StateName,
    /// Number of events imported since the approval.
    events_imported: i64,
    /// Time of the request.
    created_at: UtcTime,
    /// Time of the approval or rejection.
    decided_at: Option<UtcTime>,
    /// Note of the operator who decided.
    note: Option<String>,
}

impl From<HistoricalMigration> for MigrationBody {
    fn from(migration: HistoricalMigration) -> Self {
        Self {
            id: migration.id,
            team_id: migration.team_id,
            source: migration.source,
            method: migration.method,
            total_events: migration.total_events,
            events_per_minute: migration.events_per_minute,
            state: migration.state.into(),
            events_imported: migration.events_imported,
            created_at: migration.created_at,
            decided_at: migration.decided_at,
            note: migration.note,
        }
    }
}

async fn list(context: Context) -> Result<Envelope<MigrationBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.historical_migrations().list(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewHistoricalMigration) -> Result<MigrationBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let made = context.historical_migrations().request(&actor, id, new);
    Ok(made.await?.into())
}

async fn retrieve(context: Context) -> Result<MigrationBody, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context
        .historical_migrations()
        .get(organization_id, id)
        .await?;
    found
        .map(MigrationBody::from)
        .ok_or_else(ApiError::not_found)
}

async fn update(context: Context, patch: PatchBody) -> Result<MigrationBody, ApiError> {
    let Some(EndState::Finished) = patch.state.sent() else {
        return retrieve(context).await;
    };
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    let finished = context
        .historical_migrations()
        .finish(&actor, organization_id, id);
    Ok(finished.await?.into())
}

async fn approve(context: Context, body: DecisionBody) -> Result<MigrationBody, ApiError> {
    decide(context, body, true).await
}

async fn reject(context: Context, body: DecisionBody) -> Result<MigrationBody, ApiError> {
    decide(context, body, false).await
}

async fn decide(
    context: Context,
    body: DecisionBody,
    approve: bool,
) -> Result<MigrationBody, ApiError> {
    let (actor, organization_id) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    let decision = HistoricalDecision {
        approve,
        note: body.note.sent().flatten(),
        ..HistoricalDecision::default()
    };
    let organization_id = Some(organization_id);
    let decided = context
        .historical_migrations()
        .decide(&actor, organization_id, id, decision);
    Ok(decided.await?.into())
}
