//! `millrace migrations`: imports of past events beyond what anyone may import unasked.

use super::{counted, table};
use crate::config::Config;
use crate::open;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use millrace_catalog::{
    Actor, Catalog, HistoricalDecision, HistoricalGrant, HistoricalMigration, MigrationState,
    TeamId,
};
use uuid::Uuid;

/// What to do with historical migrations.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// List what was asked for, and how far it is
    List {
        /// Only those in this state
        #[arg(long, value_enum)]
        state: Option<State>,
    },
    /// Let one that was asked for run, or allow a project one unasked
    Approve(Approve),
    /// Refuse one that was asked for
    Reject {
        /// Id of the migration
        id: Uuid,
        /// What whoever asked shall read
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
}

/// Which migration may run, and how much it may bring.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "team_id"]))]
pub struct Approve {
    /// Id of the migration
    id: Option<Uuid>,
    /// Number of the project; its oldest open request, or without one a new migration
    #[arg(long, value_name = "N", requires_all = ["total_events", "events_per_minute"])]
    team_id: Option<i64>,
    /// How many events may come in all; as asked for by default
    #[arg(long, value_name = "N")]
    total_events: Option<i64>,
    /// How many of them in a minute; as asked for by default
    #[arg(long, value_name = "N")]
    events_per_minute: Option<i64>,
    /// What whoever asked shall read
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

/// How far a migration is.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum State {
    /// Nobody decided yet
    Requested,
    /// It may run
    Approved,
    /// It may not
    Rejected,
    /// It ran, or was given up
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
    open::on_catalog(config, async |catalog| match command {
        Command::List { state } => list(catalog, *state).await,
        Command::Approve(approve) => allow(catalog, approve).await,
        Command::Reject { id, note } => reject(catalog, *id, note.clone()).await,
    })
}

async fn list(catalog: &Catalog, state: Option<State>) -> anyhow::Result<()> {
    let state = state.map(MigrationState::from);
    let found = catalog.list_all_historical_migrations(state).await?;
    let rows = found.into_iter().map(|migration| {
        [
            migration.id.to_string(),
            migration.team_id.to_string(),
            name_of(migration.state).to_owned(),
            migration.source,
            migration.events_imported.to_string(),
            migration.total_events.to_string(),
            migration.events_per_minute.to_string(),
            super::keys::day(migration.created_at),
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

async fn allow(catalog: &Catalog, approve: &Approve) -> anyhow::Result<()> {
    let actor = Actor::command_line();
    let note = approve.note.clone();
    let decided = match (approve.id, approve.team_id) {
        (Some(id), _) => {
            let decision = HistoricalDecision {
                approve: true,
                note,
                total_events: approve.total_events,
                events_per_minute: approve.events_per_minute,
            };
            let decided = catalog.decide_historical_migration(&actor, None, id, decision);
            decided.await?
        }
        (None, team_id) => {
            // clap sees to it that all three are there.
            let grant = HistoricalGrant {
                team_id: TeamId(team_id.unwrap_or_default()),
                total_events: approve.total_events.unwrap_or_default(),
                events_per_minute: approve.events_per_minute.unwrap_or_default(),
                note,
            };
            catalog.grant_historical_migration(&actor, grant).await?
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
    let decided = catalog.decide_historical_migration(&actor, None, id, decision);
    tell(&decided.await?);
    Ok(())
}

fn tell(migration: &HistoricalMigration) {
    crate::print(&format!(
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
