//! Claims: the exclusive right of one process to make a run, for a time.
//!
//! A process claims a run, and extends the claim with each record of its progress. A claim of a
//! process that died lapses, and the run is claimed anew. If the first process was only slow, its
//! later records are not kept, and it is told so.
//!
//! A run that is cancelled under its claim holds its export for longer: the process that makes it
//! notices by the time at which the claim would have lapsed, and takes back what it delivered then,
//! under the names that the next run of the window has.

use super::create_runs::RunProgress;
use super::latest::keep_latest_runs;
use super::locks::{lock_export, lock_free_export};
use super::logs::beginning;
use super::run_round_robin::{self, RunRoundRobin, claimable};
use super::{Backfills, BatchExports, ExportLogs, ExportRuns};
use crate::actor::Actor;
use crate::database_clock::{database_now, micros};
use crate::entities::batch_export_backfills as backfills;
use crate::entities::batch_export_logs::LogLevel;
use crate::entities::batch_export_runs::{self as runs, RunStatus};
use crate::entities::batch_exports as exports;
use crate::error::ChangeError;
use crate::time::UtcTime;
use crate::transaction::{Abort, locked, locked_if_free};
use sea_orm::prelude::Uuid;
use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel,
    Iterable, QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::time::Duration;

/// Failed runs in a row that pause an export.
pub(super) const FAILED_RUNS_MAX: u64 = 10;

/// Organizations with an error after which no further one is served: each error may have taken as
/// long as a lock is waited for.
const CLAIM_ERRORS_MAX: usize = 3;

/// Longest time in which a process takes back what a run delivered that was cancelled.
pub const TAKE_BACK_MAX: Duration = Duration::from_secs(15);

/// Run that this process has claimed.
#[derive(Clone, Debug)]
pub struct ClaimedRun {
    /// Row of the run; its claim is what records are made with.
    pub run: runs::Model,
    /// Export as it is now; of a backfill's run, as it was when the backfill was asked for.
    pub export: exports::Model,
    /// Reason why this version cannot tell what the run's backfill was asked for with; `None`: it
    /// can.
    pub unknown_settings: Option<String>,
}

/// Outcome of recording a run's progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The progress was kept.
    Kept,
    /// The progress was kept, and the export was paused with it, after too many failures.
    Paused,
    /// The progress was kept, and its export has waited for the server's operator for so long that
    /// its administrators are to be told; once until the export runs again.
    WaitsLong,
    /// The run has ended, is claimed by another process, or is gone: stop making it.
    Lost,
}

impl ExportRuns<'_> {
    /// Claims a run of the organization that is next in the round robin: of its runs the one that
    /// is due the longest, of an export of which no run is claimed and whose row no other
    /// transaction has locked. Runs by the clock go before those of backfills. If nothing can be
    /// claimed, the organization has had its turn all the same, and the next one is served: its
    /// fault delays no other one.
    ///
    /// # Errors
    ///
    /// The first database error, if no run of another organization is claimed.
    pub async fn claim(
        self,
        time: Duration,
        round_robin: &mut RunRoundRobin,
    ) -> Result<Option<ClaimedRun>, ChangeError> {
        let waiting = run_round_robin::waiting(&self.0.db, round_robin.runs_each_max).await;
        let mut waiting = waiting.map_err(|error| self.0.error(&error))?;
        let mut errors = Vec::new();
        while errors.len() < CLAIM_ERRORS_MAX {
            let Some(organization_id) = round_robin.next(&waiting) else {
                break;
            };
            waiting.retain(|id| *id != organization_id);
            round_robin.mark_served(organization_id);
            match self.claim_run_of(organization_id, time).await {
                Ok(None) => {}
                Ok(claimed) => return Ok(claimed),
                Err(error) => errors.push(error),
            }
        }
        errors.into_iter().next().map_or(Ok(None), Err)
    }

    /// Claims a run of an organization.
    async fn claim_run_of(
        self,
        organization_id: Uuid,
        time: Duration,
    ) -> Result<Option<ClaimedRun>, ChangeError> {
        let mut held: Vec<Uuid> = Vec::new();
        loop {
            let seen = claimable(&self.0.db)
                .filter(
                    runs::Column::BatchExportId
                        .in_subquery(run_round_robin::exports_of(organization_id)),
                )
                .filter(runs::Column::BatchExportId.is_not_in(held.iter().copied()))
                .order_by_asc(runs::Column::BackfillId.is_not_null())
                .order_by_asc(runs::Column::NextTryAt)
                .order_by_asc(runs::Column::CreatedAt)
                .order_by_asc(runs::Column::Ordinal)
                .one(&self.0.db)
                .await;
            let Some(seen) = seen.map_err(|error| self.0.error(&error))? else {
                return Ok(None);
            };
            let transaction = self.0.begin_bounded().await?;
            let claimed = claim(&transaction, &seen, time).await;
            let claimed = self.0.finish(transaction, claimed).await?;
            if claimed.is_some() {
                return Ok(claimed);
            }
            held.push(seen.batch_export_id);
        }
    }

    /// Records the progress of a run, under its claim, and extends the claim. A status that ends
    /// the run ends the claim; [`RunStatus::FailedRetryable`] gives it back until `again_after`.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn record(
        self,
        id: Uuid,
        claim: Option<Uuid>,
        progress: RunProgress,
        again_after: Duration,
    ) -> Result<RunOutcome, ChangeError> {
        let transaction = if progress.status == RunStatus::Running {
            self.0.begin_bounded().await?
        } else {
            // The end of a try: if the claim lapsed before it is recorded, the run would be made
            // again.
            self.0.begin_queued().await?
        };
        let recorded = async {
            let query = runs::Entity::find_by_id(id);
            let Some(seen) = query.clone().one(&transaction).await? else {
                return Ok(RunOutcome::Lost);
            };
            let export = lock_export(&transaction, seen.batch_export_id).await?;
            let run = locked(&transaction, query).one(&transaction).await?;
            let run = run.filter(|run| run.status.is_open() && run.claim == claim);
            let (Some(run), Some(mut export)) = (run, export) else {
                return Ok(RunOutcome::Lost);
            };
            let mut outcome = RunOutcome::Kept;
            let wait = BatchExports::new(self.0)
                .record_wait(&transaction, &mut export, &progress)
                .await?;
            if wait.is_to_be_told {
                outcome = RunOutcome::WaitsLong;
            }
            let until = database_now(&transaction).await? + micros(wait.pause.max(again_after));
            let run = self.after(run, progress, until);
            let (export_id, status) = (export.id, run.status);
            let backfill_id = run.backfill_id.filter(|_| !status.is_open());
            run.into_active_model()
                .reset_all()
                .update(&transaction)
                .await?;
            if !wait.pause.is_zero() {
                // A wait of one run is a wait of all of them.
                runs::Entity::update_many()
                    .col_expr(runs::Column::NextTryAt, Expr::value(until))
                    .filter(runs::Column::BatchExportId.eq(export_id))
                    .filter(runs::Column::Status.is_in(RunStatus::OPEN))
                    .filter(runs::Column::NextTryAt.lt(until))
                    .exec(&transaction)
                    .await?;
            }
            if let Some(backfill_id) = backfill_id {
                Backfills::new(self.0)
                    .run_ended(&transaction, backfill_id)
                    .await?;
            }
            let failed = matches!(status, RunStatus::Failed | RunStatus::TimedOut);
            if failed && self.pause_after_failures(&transaction, export).await? {
                outcome = RunOutcome::Paused;
            }
            keep_latest_runs(&transaction, export_id).await?;
            Ok(outcome)
        };
        let recorded = recorded.await;
        self.0.finish(transaction, recorded).await
    }

    /// Applies a record to a run; `until` is when its claim lapses, or it may be tried again.
    fn after(self, mut run: runs::Model, progress: RunProgress, until: i64) -> runs::Model {
        let now = self.0.now();
        run.status = progress.status;
        run.records_completed = progress.records_completed;
        run.records_total_count = progress.records_total_count;
        run.bytes_exported = progress.bytes_exported;
        run.cursor = progress.cursor;
        run.latest_error = progress.latest_error.map(beginning);
        run.last_updated_at = now;
        run.claim_lapses_at = until;
        if run.status != RunStatus::Running {
            run.claim = None;
            run.claim_lapses_at = 0;
        }
        if run.status == RunStatus::FailedRetryable {
            // A run that waits for the operator has not failed: tries count failures.
            run.failures_count += i32::from(!progress.waits);
            run.next_try_at = until;
        }
        if !run.status.is_open() {
            run.finished_at = Some(now);
        }
        run
    }

    /// Pauses an export whose last runs, since it was resumed, all failed, those of backfills
    /// included.
    async fn pause_after_failures(
        self,
        within: &DatabaseTransaction,
        before: exports::Model,
    ) -> Result<bool, Abort> {
        if before.paused {
            return Ok(false);
        }
        // The resume may have come with a repair of what failed before.
        let since = before.resumed_at.unwrap_or(UtcTime(i64::MIN));
        let newest = runs::Entity::find()
            .filter(runs::Column::BatchExportId.eq(before.id))
            .filter(runs::Column::FinishedAt.gte(since))
            .filter(runs::Column::Status.is_in(RunStatus::iter()))
            .order_by_desc(runs::Column::FinishedAt)
            .limit(FAILED_RUNS_MAX)
            .all(within)
            .await?;
        let failed =
            |run: &runs::Model| matches!(run.status, RunStatus::Failed | RunStatus::TimedOut);
        let enough = u64::try_from(newest.len()).is_ok_and(|count| count >= FAILED_RUNS_MAX);
        if !(enough && newest.iter().all(failed)) {
            return Ok(false);
        }
        let mut after = before.clone();
        BatchExports::new(self.0).mark_paused(&mut after);
        let system = Actor::system();
        BatchExports::new(self.0)
            .save(within, &system, &before, after)
            .await?;
        let open = backfills::Entity::find()
            .filter(backfills::Column::BatchExportId.eq(before.id))
            .filter(backfills::Column::Status.is_in(RunStatus::OPEN));
        for backfill in locked(within, open).all(within).await? {
            Backfills::new(self.0)
                .cancel_within(within, &system, &before, backfill)
                .await?;
        }
        let message = format!("The export is paused: {FAILED_RUNS_MAX} runs in a row failed.");
        ExportLogs::new(self.0)
            .log(within, before.id, None, LogLevel::Error, &message)
            .await?;
        Ok(true)
    }
}

/// Claimed runs of an export.
fn claimed_run(export_id: Uuid, now: i64) -> Select<runs::Entity> {
    runs::Entity::find()
        .filter(runs::Column::BatchExportId.eq(export_id))
        .filter(runs::Column::Status.is_in(RunStatus::OPEN))
        .filter(runs::Column::ClaimLapsesAt.gt(now))
}

/// Holds an export, which is locked, if one of these runs is claimed; to be called before they are
/// cancelled.
pub(super) async fn hold_for_take_back(
    within: &DatabaseTransaction,
    export_id: Uuid,
    cancelled: Expr,
) -> Result<(), DbErr> {
    let now = database_now(within).await?;
    let claimed = claimed_run(export_id, now).filter(cancelled);
    let Some(claimed) = claimed.one(within).await? else {
        return Ok(());
    };
    let until = claimed
        .claim_lapses_at
        .saturating_add(micros(TAKE_BACK_MAX));
    exports::Entity::update_many()
        .col_expr(exports::Column::BusyUntil, Expr::value(until))
        .filter(exports::Column::Id.eq(export_id))
        .filter(exports::Column::BusyUntil.lt(until))
        .exec(within)
        .await
        .map(drop)
}

/// Claims a run, unless it or its export has changed or is locked.
async fn claim(
    within: &DatabaseTransaction,
    seen: &runs::Model,
    time: Duration,
) -> Result<Option<ClaimedRun>, Abort> {
    let Some(export) = lock_free_export(within, seen.batch_export_id).await? else {
        return Ok(None);
    };
    let query = runs::Entity::find_by_id(seen.id);
    let run = locked_if_free(within, query).one(within).await?;
    let now = database_now(within).await?;
    let is_free = |run: &runs::Model| {
        run.status.is_open() && run.claim_lapses_at <= now && run.next_try_at <= now
    };
    let Some(mut run) = run.filter(is_free) else {
        return Ok(None);
    };
    if export.busy_until > now {
        return Ok(None);
    }
    // Another run of the export may have been claimed since this one was read.
    let other = claimed_run(export.id, now).one(within).await?;
    if other.is_some() {
        return Ok(None);
    }
    run.claim = Some(Uuid::new_v4());
    run.claim_lapses_at = now + micros(time);
    run.status = RunStatus::Running;
    let run = run.into_active_model().reset_all().update(within).await?;
    keep_latest_runs(within, export.id).await?;
    let backfill = match run.backfill_id {
        Some(id) => backfills::Entity::find_by_id(id).one(within).await?,
        None => None,
    };
    let unknown_settings = backfill
        .as_ref()
        .and_then(backfills::Model::unknown_settings);
    let export = match backfill {
        Some(backfill) => backfill.of_export(export),
        None => export,
    };
    Ok(Some(ClaimedRun {
        run,
        export,
        unknown_settings,
    }))
}
