//! Exports that wait for the server and its operator: for a missing key, for ClickHouse, for
//! persons.
//!
//! Such a try has not failed, so no try is used up, and an export may wait for days. The longer it
//! waits, the rarer its tries. After an hour its administrators are told, once until it runs again:
//! the key may be lost.

use super::BatchExports;
use super::create_runs::RunProgress;
use millrace_catalog::entities::batch_export_runs::RunStatus;
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::{CatalogError, UtcTime};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait,
    PaginatorTrait, QueryFilter,
};
use std::time::Duration;

/// Time that an export waits before its administrators are told.
const TOLD_AFTER: Duration = Duration::from_secs(3_600);
/// Longest pause between two tries of a run that waits, and so the longest delay after what it
/// waits for is back.
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// Divisor of the time that the export has waited: the quotient is the pause.
const PAUSE_PART: u32 = 8;

/// State of an export's wait after a record of one of its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OperatorWait {
    /// Time until the run is tried again; zero if it does not wait.
    pub(super) pause: Duration,
    /// True once, when the wait has become long.
    pub(super) is_to_be_told: bool,
}

impl BatchExports<'_> {
    /// Number of exports that wait for the operator and are not paused.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn waiting(self) -> Result<u64, CatalogError> {
        let waiting = exports::Entity::find()
            .filter(exports::Column::WaitsSince.is_not_null())
            .filter(exports::Column::Paused.eq(false))
            .count(self.0.reader())
            .await;
        waiting.map_err(|error| self.0.error(&error))
    }
}

/// Keeps since when an export, which is locked, waits: from the first try that waits until the
/// first that ends otherwise.
pub(super) async fn record_wait(
    within: &DatabaseTransaction,
    export: &mut exports::Model,
    progress: &RunProgress,
    now: UtcTime,
) -> Result<OperatorWait, DbErr> {
    let waits = progress.waits && progress.status == RunStatus::FailedRetryable;
    // The run was claimed, or its process stops: this try has no result yet.
    let goes_on = matches!(progress.status, RunStatus::Starting | RunStatus::Running);
    if goes_on || (!waits && export.waits_since.is_none()) {
        return Ok(OperatorWait::default());
    }
    let (mut since, mut told_at, mut wait) = (None, None, OperatorWait::default());
    if waits {
        let began = export.waits_since.unwrap_or(now);
        let waited = u64::try_from(now.0.saturating_sub(began.0)).unwrap_or(0);
        let waited = Duration::from_micros(waited);
        wait.pause = (waited / PAUSE_PART).min(PAUSE_MAX);
        wait.is_to_be_told = waited >= TOLD_AFTER && export.wait_told_at.is_none();
        since = Some(began);
        told_at = match wait.is_to_be_told {
            true => Some(now),
            false => export.wait_told_at,
        };
    }
    if (since, told_at) != (export.waits_since, export.wait_told_at) {
        let row = exports::ActiveModel {
            id: ActiveValue::Unchanged(export.id),
            waits_since: ActiveValue::Set(since),
            wait_told_at: ActiveValue::Set(told_at),
            ..Default::default()
        };
        row.update(within).await?;
        (export.waits_since, export.wait_told_at) = (since, told_at);
    }
    Ok(wait)
}
