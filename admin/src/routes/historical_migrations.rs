//! `/api/organizations/:organization_id/historical_migrations/`.

use crate::context::Context;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::patch::Patch;
use crate::timestamp::Timestamp;
use millrace_catalog::{
    Feature, HistoricalDecision, HistoricalMigration, Level, MigrationState, Need,
    NewHistoricalMigration, TeamId, features,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const ALL: &str = "/api/organizations/{organization_id}/historical_migrations/";
const ONE: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/";
const APPROVE: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/approve/";
const REJECT: &str = "/api/organizations/{organization_id}/historical_migrations/{id}/reject/";
const READ: [Need; 1] = [Need::read("historical_migration")];
const WRITE: [Need; 1] = [Need::write("historical_migration")];
/// Without it imports can be read and ended still.
const FEATURE: Feature = features::HISTORICAL_MIGRATIONS;

/// This resource's rows of the table.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the imports that were asked for")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Ask for an import beyond the limits for everyone")
            .counted(&[Limit::HistoricalMigrations])
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(
                400,
                "invalid_input",
                "The project is not the organization's.",
            ),
        Operation::get(ONE, retrieve)
            .about("Read how far an import is")
            .note(
                "Its `ETag` is not of `events_imported`. It changes with `state`, also when that becomes `finished` by \
                 itself: whoever asks with `If-None-Match` is told.",
            )
            .live_fields(&["events_imported"])
            .scopes(&READ),
        Operation::patch(ONE, &["state"], update)
            .about("End an import")
            .scopes(&WRITE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", "The import was rejected."),
        Operation::action(APPROVE, approve)
            .about("Let an import of any organization run, with the numbers asked for")
            .operator()
            .fails(400, "invalid_input", "The import is finished."),
        Operation::action(REJECT, reject)
            .about("Refuse an import of any organization")
            .operator()
            .fails(400, "invalid_input", "The import is finished."),
    ]
}

/// What is asked for.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewHistoricalMigration")]
struct NewBody {
    /// Where the events go; the organization's first project if not given.
    #[serde(default)]
    team_id: Patch<i64>,
    /// Where the events come from.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"\S"))]
    source: String,
    /// How they come.
    #[schemars(length(min = 1, max = 200), regex(pattern = r"\S"))]
    method: String,
    /// How many in all.
    #[schemars(range(min = 1))]
    total_events: i64,
    /// How fast.
    #[schemars(range(min = 1))]
    events_per_minute: i64,
}

/// What is to be different.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchHistoricalMigration")]
#[serde(default)]
struct PatchBody {
    /// It is done, or given up.
    state: Patch<EndState>,
}

/// The state that whoever asked may set.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EndState {
    Finished,
}

/// What the operator says to it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "HistoricalMigrationDecision")]
#[serde(default)]
struct DecisionBody {
    /// For whoever asked.
    note: Patch<Option<String>>,
}

/// How far an import is.
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

/// An import that was asked for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "HistoricalMigration")]
struct MigrationBody {
    id: Uuid,
    /// Where the events go.
    team_id: i64,
    /// Where the events come from.
    source: String,
    /// How they come.
    method: String,
    /// How many may come in all.
    total_events: i64,
    /// How fast.
    events_per_minute: i64,
    state: StateName,
    /// How many came since it was approved.
    events_imported: i64,
    created_at: Timestamp,
    /// When it was approved or rejected.
    decided_at: Option<Timestamp>,
    /// What whoever decided has to say.
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
            created_at: migration.created_at.into(),
            decided_at: migration.decided_at.map(Timestamp::from),
            note: migration.note,
        }
    }
}

async fn list(context: Context) -> Result<Envelope<MigrationBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.catalog().list_historical_migrations(id, page);
    context.list(page, read).await
}

async fn create(context: Context, new: NewBody) -> Result<MigrationBody, ApiError> {
    let (actor, id) = (context.actor()?, context.organization_id()?);
    let new = NewHistoricalMigration {
        team_id: new.team_id.sent().map(TeamId),
        source: new.source,
        method: new.method,
        total_events: new.total_events,
        events_per_minute: new.events_per_minute,
    };
    let made = context
        .catalog()
        .request_historical_migration(&actor, id, new);
    Ok(made.await?.into())
}

async fn retrieve(context: Context) -> Result<MigrationBody, ApiError> {
    let (organization_id, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context
        .catalog()
        .historical_migration(organization_id, id)
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
        .catalog()
        .finish_historical_migration(&actor, organization_id, id);
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
    let decided =
        context
            .catalog()
            .decide_historical_migration(&actor, organization_id, id, decision);
    Ok(decided.await?.into())
}
