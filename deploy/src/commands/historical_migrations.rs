//! `millrace migrations`: approves and rejects imports of past events above the default quota.

use super::list_format::{ListFormat, print_object};
use super::{counted, table};
use crate::config::Config;
use crate::connect;
use crate::numbers::{count, project, uuid_of};
use crate::output;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use millrace_catalog::{Actor, Catalog, HistoricalMigration, MigrationState, ProjectId};
use millrace_organizations::{HistoricalDecision, HistoricalGrant, HistoricalMigrations};
use serde_json::{Value, json};
use uuid::Uuid;

/// Subcommand of `millrace migrations`.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List requests with their state and progress
    List {
        /// Only migrations in this state
        #[arg(long, value_enum)]
        state: Option<State>,
        /// Format of the list
        #[command(flatten)]
        format: ListFormat,
    },
    /// Approve a request, or a migration for a project without a request
    Approve(Approve),
    /// Reject a request
    Reject {
        /// Id of the migration
        #[arg(value_parser = uuid_of)]
        id: Uuid,
        /// Note for the requester
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

/// Migration to approve, and its quota.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "project_id"]))]
pub struct Approve {
    /// Id of the migration
    #[arg(value_parser = uuid_of)]
    id: Option<Uuid>,
    /// Id of the project; approves its oldest open request, or a new migration if there is none
    #[arg(long, alias = "team-id", value_name = "N", value_parser = project::<i64>, requires_all = ["total_events", "events_per_minute"])]
    project_id: Option<i64>,
    /// Number of events that may be imported in all; as requested by default
    #[arg(long, value_name = "N", value_parser = count::<i64>)]
    total_events: Option<i64>,
    /// Number of events that may be imported in a minute; as requested by default
    #[arg(long, value_name = "N", value_parser = count::<i64>)]
    events_per_minute: Option<i64>,
    /// Note for the requester
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// State of a migration.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum State {
    /// Waiting for a decision
    Requested,
    /// Allowed to run
    Approved,
    /// Not allowed to run
    Rejected,
    /// Ended or cancelled
    Finished,
}

impl From<State> for MigrationState {
    fn from(state: State) -> Self {
        match state {
            State::Requested => Self::Requested,
            State::Approved => Self::Approved,
            State::Rejected => Self::Rejected,
            State::Finished => Self::Finished,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the catalog cannot be opened or refuses.
pub fn run(config: &Config, command: &Command) -> anyhow::Result<()> {
    connect::with_catalog(config, async |catalog| match command {
        Command::List { state, format } => list(catalog, *state, *format).await,
        Command::Approve(approve) => allow(catalog, approve).await,
        Command::Reject { id, note } => reject(catalog, *id, note.clone()).await,
    })
}

async fn list(catalog: &Catalog, state: Option<State>, format: ListFormat) -> anyhow::Result<()> {
    let state = state.map(MigrationState::from);
    let found = HistoricalMigrations::new(catalog).list_all(state).await?;
    if format.is_json() {
        let migrations: Vec<Value> = found.iter().map(object).collect();
        print_object(&json!({ "migrations": migrations }));
        return Ok(());
    }
    let rows = found.into_iter().map(|migration| {
        [
            migration.id.to_string(),
            migration.team_id.to_string(),
            name_of(migration.state).to_owned(),
            migration.source,
            migration.events_imported.to_string(),
            migration.total_events.to_string(),
            migration.events_per_minute.to_string(),
            migration.created_at.day(),
        ]
    });
    table::print(
        [
            "ID", "PROJECT", "STATE", "SOURCE", "IMPORTED", "OF", "A MINUTE", "ASKED",
        ],
        rows.collect(),
        match state {
            None => "Nobody has asked for a historical migration.",
            Some(_) => "There are no such historical migrations.",
        },
    );
    Ok(())
}

fn object(migration: &HistoricalMigration) -> Value {
    json!({
        "id": migration.id,
        "organization_id": migration.organization_id,
        "project_id": migration.team_id,
        "state": name_of(migration.state),
        "source": migration.source,
        "events_imported": migration.events_imported,
        "total_events": migration.total_events,
        "events_per_minute": migration.events_per_minute,
        "created_at": migration.created_at.to_string(),
        "decided_at": migration.decided_at.map(|at| at.to_string()),
        "note": migration.note,
    })
}

async fn allow(catalog: &Catalog, approve: &Approve) -> anyhow::Result<()> {
    let actor = Actor::command_line();
    let note = approve.note.clone();
    let decided = match (approve.id, approve.project_id) {
        (Some(id), _) => {
            let decision = HistoricalDecision {
                approve: true,
                note,
                total_events: approve.total_events,
                events_per_minute: approve.events_per_minute,
            };
            let decided = HistoricalMigrations::new(catalog).decide(&actor, None, id, decision);
            decided.await?
        }
        (None, project_id) => {
            // clap requires all three together.
            let grant = HistoricalGrant {
                project_id: ProjectId(project_id.unwrap_or_default()),
                total_events: approve.total_events.unwrap_or_default(),
                events_per_minute: approve.events_per_minute.unwrap_or_default(),
                note,
            };
            HistoricalMigrations::new(catalog)
                .grant(&actor, grant)
                .await?
        }
    };
    tell(&decided);
    Ok(())
}

async fn reject(catalog: &Catalog, id: Uuid, note: Option<String>) -> anyhow::Result<()> {
    let actor = Actor::command_line();
    let decision = HistoricalDecision {
        note,
        ..HistoricalDecision::default()
    };
    let decided = HistoricalMigrations::new(catalog).decide(&actor, None, id, decision);
    tell(&decided.await?);
    Ok(())
}

fn tell(migration: &HistoricalMigration) {
    output::print(&format!(
        "Historical migration {} of project {} is {}: {}, {} a minute.",
        migration.id,
        migration.team_id,
        name_of(migration.state),
        counted(migration.total_events.unsigned_abs(), "event"),
        counted(migration.events_per_minute.unsigned_abs(), "event")
    ));
}

const fn name_of(state: MigrationState) -> &'static str {
    match state {
        MigrationState::Requested => "requested",
        MigrationState::Approved => "approved",
        MigrationState::Rejected => "rejected",
        MigrationState::Finished => "finished",
    }
}
