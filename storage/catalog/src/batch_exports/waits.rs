//! Exports that wait for the server's operator, as for a key that is missing.
//!
//! Nothing failed, so no try is used up, and an export may wait for days. Its tries are the rarer the longer it waits,
//! and once it has waited for an hour its administrators are told, once until it runs again: the key may be lost.

use super::making::RunProgress;
use crate::catalog::Catalog;
use crate::entities::batch_export_runs::RunStatus;
use crate::entities::batch_exports as exports;
use sea_orm::{ActiveModelTrait, ActiveValue, DatabaseTransaction, DbErr};
use std::time::Duration;

/// How long an export waits before somebody is told.
const TOLD_AFTER: Duration = Duration::from_secs(3_600);
/// The longest pause between two tries of a run that waits: so long after a key is there again it may take.
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// A pause is this part of the time that the export has waited.
const PAUSE_PART: u32 = 8;

/// State of an export's wait after a record of one of its runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wait {
    /// How long the run is not tried again; zero if it does not wait.
    pub(super) pause: Duration,
    /// It has become long.
    pub(super) is_to_be_told: bool,
}

impl Catalog {
    /// Keeps since when an export, which is locked, waits: from the first try that does to the first that ends
    /// otherwise.
    pub(super) async fn note_wait(
        &self,
        within: &DatabaseTransaction,
        export: &mut exports::Model,
        progress: &RunProgress,
    ) -> Result<Wait, DbErr> {
        let waits = progress.waits && progress.status == RunStatus::FailedRetryable;
        // It was claimed, or its process stops: nothing is known of this try yet.
        let goes_on = matches!(progress.status, RunStatus::Starting | RunStatus::Running);
        if goes_on || (!waits && export.waits_since.is_none()) {
            return Ok(Wait::default());
        }
        let now = self.now();
        let (mut since, mut told_at, mut wait) = (None, None, Wait::default());
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
}
