//! Schedules the planning of backfills, by organization in turn.
//!
//! This is a task of its own: counting the windows of ten years may take ClickHouse long, and no
//! window by the clock waits for that. As many backfills are planned at a time as runs are made,
//! and one of each organization: so no backfill is planned twice at a time, and a customer with
//! many backfills delays only their own. A statement that ClickHouse does not finish in time is
//! given up, and its organization rests for longer than that took. After the third such statement
//! in a row its backfill fails, with the reason for the customer.

use super::backfill;
use super::leader::Leader;
use super::options::PLAN_EVERY;
use super::panics::caught;
use super::planner::{PlanError, in_time};
use super::state::Inner;
use crate::error::ExportErrorKind;
use crate::records::{BackfillRoundRobin, Backfills, IntervalError, OpenBackfill};
use millrace_catalog::{CatalogError, Nodes, UtcTime};
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, timeout};
use uuid::Uuid;

/// Pause before backfills that could not be planned are tried again.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
/// Rest of an organization after a failure, as a multiple of the time until the failure: so what
/// never succeeds has a place for a quarter of the time.
const REST_FACTOR: u32 = 3;
/// Searches in a row that reach a limit or panic, after which a backfill fails. Other work may have
/// kept ClickHouse busy at the first one; busy for the 45 minutes that three take with their rests,
/// it is too slow for the range, and the customer has to be told.
const SEARCHES_MAX: u32 = 3;
/// Searches of one turn of a backfill at most: two ranges are counted, and searched for windows.
const SEARCHES_AT_ONCE: u32 = 4;
/// Backfills whose searches are counted. With more, all of them are counted anew.
const COUNTED_MAX: usize = 1_000;

/// Plans backfills for as long as this process leads.
pub(super) async fn run(inner: &Arc<Inner>, leads: &Leader) -> Infallible {
    let mut every = tokio::time::interval(PLAN_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut scheduler = BackfillScheduler::new(inner);
    loop {
        tokio::select! {
            _ = every.tick() => {}
            () = inner.ended.notified() => {}
            Some(ended) = scheduler.planning.join_next_with_id() => scheduler.mark_ended(ended),
        }
        if leads.now() {
            if matches!(scheduler.schedule().await, Err(PlanError::NoAnswer)) {
                leads.resign();
            }
        } else {
            scheduler.planning.abort_all();
            scheduler.limits.clear();
        }
    }
}

/// Outcome of planning a backfill.
struct PlanOutcome {
    id: Uuid,
    /// True if anything could be done for it.
    is_planned: bool,
    /// Time that it took to fail; `None`: it did not fail.
    failed_after: Option<Duration>,
    /// True if it failed because a search for windows reached a limit, or by a panic.
    has_reached_limit: bool,
}

/// Fair scheduler of backfills, by organization.
struct BackfillScheduler {
    inner: Arc<Inner>,
    round_robin: BackfillRoundRobin,
    planning: JoinSet<PlanOutcome>,
    /// Organizations with a backfill that is being planned, by its task.
    busy: HashMap<Id, Uuid>,
    /// Backfills for which nothing could be done since `idle_since`.
    idle: HashSet<Uuid>,
    /// Organizations that have no other backfill than idle ones.
    resting: HashSet<Uuid>,
    /// Organizations that rest after a failure, and until when.
    failed: HashMap<Uuid, Instant>,
    /// Number of the last searches of backfills that reached a limit, one after the other. It is
    /// not kept across restarts: another process counts anew.
    limits: HashMap<Uuid, u32>,
    idle_since: Instant,
}

impl BackfillScheduler {
    fn new(inner: &Arc<Inner>) -> Self {
        Self {
            inner: Arc::clone(inner),
            round_robin: BackfillRoundRobin::default(),
            planning: JoinSet::new(),
            busy: HashMap::new(),
            idle: HashSet::new(),
            resting: HashSet::new(),
            failed: HashMap::new(),
            limits: HashMap::new(),
            idle_since: Instant::now(),
        }
    }

    fn mark_ended(&mut self, ended: Result<(Id, PlanOutcome), JoinError>) {
        match ended {
            Ok((task, outcome)) => {
                if !outcome.is_planned {
                    self.idle.insert(outcome.id);
                }
                self.count_limits(&outcome);
                let organization_id = self.busy.remove(&task);
                let rest = outcome.failed_after.map(|took| took * REST_FACTOR);
                if let Some((organization_id, rest)) = organization_id.zip(rest) {
                    self.failed.insert(organization_id, Instant::now() + rest);
                }
            }
            // The task was stopped: the backfill's next turn tries again.
            Err(error) => {
                self.busy.remove(&error.id());
            }
        }
    }

    fn count_limits(&mut self, outcome: &PlanOutcome) {
        if !outcome.has_reached_limit {
            self.limits.remove(&outcome.id);
            return;
        }
        if self.limits.len() >= COUNTED_MAX {
            self.limits.clear();
        }
        *self.limits.entry(outcome.id).or_default() += 1;
    }

    /// Starts to plan due backfills while there are free slots, and logs a failure.
    async fn schedule(&mut self) -> Result<(), PlanError> {
        if self.idle_since.elapsed() >= IDLE_PAUSE {
            self.idle.clear();
            self.resting.clear();
            self.idle_since = Instant::now();
        }
        self.failed.retain(|_, until| Instant::now() < *until);
        let inner = Arc::clone(&self.inner);
        let started = in_time(&inner, self.start_due()).await;
        started.inspect_err(|error| {
            if inner.is_logged("plan backfills", error) {
                tracing::warn!(%error, "backfills cannot be planned; trying again until they can");
            }
        })
    }

    async fn start_due(&mut self) -> Result<(), CatalogError> {
        let inner = Arc::clone(&self.inner);
        while self.planning.len() < inner.options.runs_max.max(1) {
            let Some(open) = self.next().await? else {
                return Ok(());
            };
            let Some(watermark) = Nodes::new(&inner.catalog).exports_watermark().await? else {
                return Ok(());
            };
            let organization_id = open.export.organization_id;
            self.round_robin.mark_served(&open);
            let limits_before = self.limits.get(&open.backfill.id).copied();
            let limits_before = limits_before.unwrap_or_default();
            let planning = plan_one(Arc::clone(&inner), open, watermark, limits_before);
            let task = self.planning.spawn(planning);
            self.busy.insert(task.id(), organization_id);
        }
        Ok(())
    }

    /// Finds the backfill whose turn it is: none that is idle, and none of an organization with a
    /// backfill that is being planned.
    async fn next(&mut self) -> Result<Option<OpenBackfill>, CatalogError> {
        loop {
            let resting = self.resting.iter().chain(self.failed.keys());
            let but: Vec<Uuid> = self.busy.values().chain(resting).copied().collect();
            let next = Backfills::new(&self.inner.catalog).next_to_plan(&self.round_robin, &but);
            match next.await? {
                // All backfills of the organization had a turn.
                Some(open) if self.idle.contains(&open.backfill.id) => {
                    self.resting.insert(open.export.organization_id);
                }
                next => return Ok(next),
            }
        }
    }
}

/// Plans a backfill whose last searches reached a limit so many times. A failure to read its rows
/// keeps no other backfill waiting; a permanent one ends the backfill as failed.
async fn plan_one(
    inner: Arc<Inner>,
    open: OpenBackfill,
    watermark: UtcTime,
    limits_before: u32,
) -> PlanOutcome {
    let (id, export_id, began) = (open.backfill.id, open.export.id, Instant::now());
    let planning = async {
        // Searches have limits of their own; what is left is the catalog.
        let searches_max = inner.options.window_search_max * SEARCHES_AT_ONCE;
        let planning_max = searches_max + inner.options.step_max();
        let planned = timeout(planning_max, backfill::plan(&inner, open, watermark)).await;
        planned.unwrap_or(Err(PlanError::NoAnswer))
    };
    let planned = caught(export_id, planning).await;
    let mut planned = planned.unwrap_or_else(|error| Err(error.into()));
    let failure = planned.as_ref().err();
    if let Some(reason) = failure.and_then(|error| reason_to_give_up(error, limits_before)) {
        tracing::warn!(backfill = %id, reason, "a backfill is given up");
        let failing = Backfills::new(&inner.catalog).fail(id, &reason);
        planned = in_time(&inner, failing).await;
    }
    let has_reached_limit = matches!(
        planned,
        Err(PlanError::SearchLimit(_) | PlanError::Panicked(_))
    );
    let mut failed_after = None;
    let is_planned = match planned {
        Ok(is_planned) => is_planned,
        Err(error) => {
            // ClickHouse's own failures are logged elsewhere.
            if inner.is_logged("plan backfill", &id) {
                tracing::warn!(backfill = %id, %error, "a backfill cannot be planned; trying again until it can");
            }
            // Memory is short sooner than time, and for as long.
            let least = match has_reached_limit {
                true => inner.options.window_search_max,
                false => Duration::ZERO,
            };
            failed_after = Some(began.elapsed().max(least));
            false
        }
    };
    if is_planned {
        // The backfill's runs can be claimed.
        inner.freed.notify_one();
    }
    PlanOutcome {
        id,
        is_planned,
        failed_after,
        has_reached_limit,
    }
}

/// Reason for which a backfill is given up, for customers; `None`: planning is tried again.
fn reason_to_give_up(error: &PlanError, limits_before: u32) -> Option<String> {
    match error {
        PlanError::Rows(error) if error.kind == ExportErrorKind::Permanent => {
            Some(error.message.clone())
        }
        // A backfill keeps the interval that it was asked for with.
        PlanError::Catalog(CatalogError::WrongInterval { interval, .. }) => Some(format!(
            "The backfill was requested with the interval {interval:?}, which this version does \
             not know. Change the export's interval, and request the backfill again: \
             {IntervalError}."
        )),
        PlanError::SearchLimit(_) | PlanError::Panicked(_) if limits_before + 1 >= SEARCHES_MAX => {
            Some(error.to_string())
        }
        PlanError::Rows(_)
        | PlanError::Catalog(_)
        | PlanError::Change(_)
        | PlanError::SearchLimit(_)
        | PlanError::NoAnswer
        | PlanError::Panicked(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::panics::Panicked;
    use crate::error::ExportError;

    #[test]
    fn a_backfill_is_given_up_for_what_does_not_pass() {
        let interval = || CatalogError::WrongInterval {
            export_id: Uuid::nil(),
            interval: "fortnight".to_owned(),
        };
        let away = || CatalogError::Locked {
            location: String::new(),
        };
        let limit = || PlanError::SearchLimit("ask for a shorter range".to_owned());
        // Failure, searches before that reached a limit, and words of the reason.
        let table = [
            (
                PlanError::Rows(ExportError::permanent("bad query")),
                0,
                Some("bad query"),
            ),
            (PlanError::Rows(ExportError::retryable("away")), 9, None),
            (PlanError::Catalog(interval()), 0, Some("\"fortnight\"")),
            (PlanError::Catalog(interval()), 0, Some("every N minutes")),
            (PlanError::Catalog(away()), 9, None),
            (PlanError::Change(away().into()), 9, None),
            (limit(), 0, None),
            (limit(), 1, None),
            (limit(), 2, Some("ask for a shorter range")),
            (limit(), 3, Some("ask for a shorter range")),
            (PlanError::Panicked(Panicked), 1, None),
            (PlanError::Panicked(Panicked), 2, Some("because of a bug")),
        ];
        for (error, limits_before, expected) in table {
            let reason = reason_to_give_up(&error, limits_before);
            assert_eq!(reason.is_some(), expected.is_some(), "{error}");
            if let (Some(reason), Some(words)) = (reason, expected) {
                assert!(reason.contains(words), "{reason}");
            }
        }
    }
}
