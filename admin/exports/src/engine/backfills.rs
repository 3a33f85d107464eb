//! Backfills, planned turn by turn.
//!
//! A task of its own: to count the windows of ten years takes as long as ClickHouse takes, and no window by the
//! clock waits for that. As many backfills are planned at a time as runs are made, and of one organization one:
//! so each is planned by one at a time, and who asks for many waits for their own.

use super::leader::Leader;
use super::planner::PlanError;
use super::{Inner, LOOK_EVERY, backfill};
use crate::error::Outlook;
use millrace_catalog::{BackfillTurns, CatalogError, OpenBackfill, UtcTime};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// How long backfills rest that could not be planned.
const REST: Duration = Duration::from_secs(1);

/// Plans again and again, as long as this process leads.
pub(super) async fn plan(inner: &Arc<Inner>, leads: &Leader) -> Infallible {
    let mut every = tokio::time::interval(LOOK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut turns = Turns::new(inner);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = inner.ended.notified() => {}
            Some(ended) = turns.planning.join_next_with_id() => turns.ended(ended),
        }
        if leads.now() {
            turns.go_on().await;
        } else {
            turns.planning.abort_all();
        }
    }
}

/// A backfill that was looked at.
struct Looked {
    id: Uuid,
    /// Something could be done for it.
    is_planned: bool,
}

struct Turns {
    inner: Arc<Inner>,
    turns: BackfillTurns,
    planning: JoinSet<Looked>,
    /// Organizations of which one is planned.
    busy: HashMap<Id, Uuid>,
    /// Backfills for which nothing could be done, since `rested`.
    idle: HashSet<Uuid>,
    /// Organizations that have no other.
    resting: HashSet<Uuid>,
    rested: Instant,
    /// Trouble of the catalog that was told last.
    told: Option<String>,
}

impl Turns {
    fn new(inner: &Arc<Inner>) -> Self {
        Self {
            inner: Arc::clone(inner),
            turns: BackfillTurns::default(),
            planning: JoinSet::new(),
            busy: HashMap::new(),
            idle: HashSet::new(),
            resting: HashSet::new(),
            rested: Instant::now(),
            told: None,
        }
    }

    fn ended(&mut self, ended: Result<(Id, Looked), JoinError>) {
        let task = match ended {
            Ok((task, looked)) => {
                if !looked.is_planned {
                    self.idle.insert(looked.id);
                }
                task
            }
            // It panicked, or was stopped: the next turn of the backfill is another try.
            Err(error) => error.id(),
        };
        self.busy.remove(&task);
    }

    /// Begins with whose turn it is, as long as there is room.
    async fn go_on(&mut self) {
        if self.rested.elapsed() >= REST {
            self.idle.clear();
            self.resting.clear();
            self.rested = Instant::now();
        }
        match self.begin().await {
            Ok(()) => self.told = None,
            Err(error) => {
                let error = error.to_string();
                // Once for as long as it is the same.
                if self.told.as_ref() != Some(&error) {
                    tracing::warn!(
                        error,
                        "backfills cannot be planned; trying again until they can"
                    );
                    self.told = Some(error);
                }
            }
        }
    }

    async fn begin(&mut self) -> Result<(), CatalogError> {
        let inner = Arc::clone(&self.inner);
        while self.planning.len() < inner.options.runs_max.max(1) {
            let but: Vec<Uuid> = self.busy.values().chain(&self.resting).copied().collect();
            let next = inner.catalog.next_backfill_to_plan(&self.turns, &but);
            let Some(open) = next.await? else {
                return Ok(());
            };
            let organization_id = open.export.organization_id;
            if self.idle.contains(&open.backfill.id) {
                // Once round.
                self.resting.insert(organization_id);
                continue;
            }
            let Some(watermark) = inner.catalog.exports_watermark().await? else {
                return Ok(());
            };
            self.turns.had(&open);
            let inner = Arc::clone(&inner);
            let task = self.planning.spawn(look_at(inner, open, watermark));
            self.busy.insert(task.id(), organization_id);
        }
        Ok(())
    }
}

/// Plans a backfill. One whose rows cannot be asked for keeps no other waiting; one of which that will never
/// change is given up.
async fn look_at(inner: Arc<Inner>, open: OpenBackfill, watermark: UtcTime) -> Looked {
    let id = open.backfill.id;
    let planned = match backfill::plan(&inner, open, watermark).await {
        Err(PlanError::Rows(error)) if error.outlook == Outlook::Hopeless => {
            tracing::warn!(backfill = %id, %error, "a backfill is given up");
            let failed = inner.catalog.fail_export_backfill(id, &error.message).await;
            failed.map_err(PlanError::from)
        }
        planned => planned,
    };
    let is_planned = match planned {
        Ok(is_planned) => {
            inner.unplanned().remove(&id);
            is_planned
        }
        Err(error) => {
            // Once for as long as it lasts. Why ClickHouse fails is said by whoever looks after it.
            if inner.unplanned().insert(id) {
                tracing::warn!(backfill = %id, %error, "a backfill cannot be planned; trying again until it can");
            }
            false
        }
    };
    if is_planned {
        // Its runs can be claimed.
        inner.freed.notify_one();
    }
    Looked { id, is_planned }
}
