//! What projects may import: how much in all, and how fast.
//!
//! The catalog keeps each project's volume and the bucket of its rate. A node is given a slice of both,
//! in events, and admits requests from it without asking: one atomic subtraction. A task ([`Keeper`])
//! asks for the next slice before one runs out, tells the catalog every second what was counted, and
//! gives back what is not used. Only a request that finds too little waits for the catalog, and
//! briefly; requests that are no imports come by none of this.
//!
//! | What | Where |
//! |---|---|
//! | who may have how much | `historical_migrations` of the catalog, decided under a lock |
//! | what came in | counted by the commit thread ([`millrace_pipeline::Tally`]); after a crash by the log |
//! | what a node may admit | here ([`Team`]) |
//!
//! Promises: a request is admitted as a whole or not at all; what is not stored goes back; no project gets
//! more than its volume, on all nodes together, whoever crashes when; what a crash withheld is back
//! when the node has started again.

mod keeper;
mod ledger;
mod refusal;
mod team;

#[cfg(test)]
mod tests;

pub use keeper::RunningAllowances;
pub(crate) use refusal::ImportRefusal;

use keeper::Keeper;
use millrace_catalog::Catalog;
use millrace_pipeline::{Admission, Pipeline, Position};
use millrace_rows::{Clock, TeamId};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use team::Team;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

/// How long a request waits for the catalog.
const WAIT: Duration = Duration::from_secs(2);

/// What may be imported. Clones share it.
#[derive(Clone, Debug)]
pub struct Allowances(Arc<Shared>);

/// What requests and the keeper share.
struct Shared {
    /// Those that imported something since the start.
    teams: RwLock<BTreeMap<TeamId, Arc<Team>>>,
    /// Somebody waits, or a slice runs out.
    wake: Notify,
    clock: Arc<dyn Clock>,
}

impl Allowances {
    /// Begins to keep the slices of a node, on the runtime of the caller, which is the catalog's. To be
    /// called before anything is shipped, as what is shipped may have to be counted yet.
    #[must_use]
    pub fn start(
        catalog: Catalog,
        pipeline: Pipeline,
        node: String,
        clock: Arc<dyn Clock>,
    ) -> (Self, RunningAllowances) {
        // Only what is below would be released.
        let _ = pipeline.keep_historical_from(Position::FIRST);
        let shared = Arc::new(Shared {
            teams: RwLock::default(),
            wake: Notify::default(),
            clock,
        });
        let (stop, stopped) = watch::channel(false);
        let keeper = Keeper::new(Arc::clone(&shared), catalog, pipeline, node);
        let task = tokio::spawn(keeper.run(stopped));
        (Self(shared), RunningAllowances::new(stop, task))
    }

    /// Admits so many events of a project, or none.
    ///
    /// # Errors
    /// Why not, and until when.
    pub(crate) async fn admit(
        &self,
        team_id: TeamId,
        events: u64,
    ) -> Result<Admission, ImportRefusal> {
        let team = self.0.team(team_id);
        if let Some(admission) = team.take(events) {
            if team.runs_low() {
                self.0.wake.notify_one();
            }
            return Ok(admission);
        }
        if let Some(refusal) = team.refusal(events) {
            return Err(refusal);
        }
        let answer = team.wait(events)?;
        self.0.wake.notify_one();
        match timeout(WAIT, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(ImportRefusal::Unavailable),
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("teams", &self.teams)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn team(&self, id: TeamId) -> Arc<Team> {
        let known = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(team) = known.get(&id) {
            return Arc::clone(team);
        }
        drop(known);
        let mut teams = self.teams.write().unwrap_or_else(PoisonError::into_inner);
        let team = teams
            .entry(id)
            .or_insert_with(|| Arc::new(Team::new(id, Arc::clone(&self.clock))));
        Arc::clone(team)
    }

    fn all(&self) -> Vec<Arc<Team>> {
        let teams = self.teams.read().unwrap_or_else(PoisonError::into_inner);
        teams.values().cloned().collect()
    }
}
