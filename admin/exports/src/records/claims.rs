//! Claims: the exclusive right of one process to make a run, for a time.
//!
//! A process claims a run, and extends the claim with each record of its progress
//! ([`ExportRuns::record`]). A claim of a process that died lapses, and the run is claimed anew. If
//! the first process was only slow, its later records are not kept, and it is told so.

use super::ExportRuns;
use super::backfill_snapshot::{export_of, unknown_settings};
use super::cancel_runs::claimed_run;
use super::latest::keep_latest_runs;
use super::locks::lock_free_export;
use super::run_round_robin::{self, RunRoundRobin, claimable};
use millrace_catalog::ChangeError;
use millrace_catalog::database_clock::{database_now, micros};
use millrace_catalog::entities::batch_export_runs::{self as runs, RunStatus};
use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::transaction::{Abort, locked_if_free};
use sea_orm::prelude::Uuid;
use sea_orm::{
    ActiveModelTrait, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder,
};
use std::time::Duration;

/// Organizations with an error after which no further one is served: each error may have taken as
/// long as a lock is waited for.
const CLAIM_ERRORS_MAX: usize = 3;

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

impl ExportRuns<'_> {
    /// Claims a run of the organization that is next in the round robin: of its runs the one that
    /// is due the longest, of an export of which no run is claimed and whose row no other
    /// transaction has locked. Runs by the clock go before those of backfills. If nothing can be
    /// claimed, the organization has had its turn all the same, and the next one is served: its
    /// fault delays no other one.
    ///
    /// # Errors
    ///
    /// A database error that keeps the waiting organizations from being listed; else the first one
    /// of a claim, if no other organization has a run that can be claimed. After three errors no
    /// further organization is served.
    pub async fn claim(
        self,
        time: Duration,
        round_robin: &mut RunRoundRobin,
    ) -> Result<Option<ClaimedRun>, ChangeError> {
        let waiting = run_round_robin::waiting(self.0.reader(), round_robin.runs_each_max).await;
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
            let seen = claimable(self.0.reader())
                .filter(
                    runs::Column::BatchExportId
                        .in_subquery(run_round_robin::exports_of(organization_id)),
                )
                .filter(runs::Column::BatchExportId.is_not_in(held.iter().copied()))
                .order_by_asc(runs::Column::BackfillId.is_not_null())
                .order_by_asc(runs::Column::NextTryAt)
                .order_by_asc(runs::Column::CreatedAt)
                .order_by_asc(runs::Column::Ordinal)
                .one(self.0.reader())
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
    let unknown_settings = backfill.as_ref().and_then(unknown_settings);
    let export = match backfill {
        Some(backfill) => export_of(&backfill, export),
        None => export,
    };
    Ok(Some(ClaimedRun {
        run,
        export,
        unknown_settings,
    }))
}
