//! Pausing and resuming exports.

use super::backfills::BackfillRequest;
use super::locks::lock_export;
use super::unknown_values::is_readable;
use super::windows::skip_paused_windows;
use super::{
    BackfillRange, Backfills, BatchExportView, BatchExports, ExportLogs, ExportPlace, find_view,
    found_for_use, found_to_stop, not_found, of,
};
use millrace_catalog::entities::batch_export_logs::LogLevel;
use millrace_catalog::entities::batch_export_runs::RunStatus;
use millrace_catalog::entities::{batch_export_backfills as backfills, batch_exports as exports};
use millrace_catalog::transaction::{Abort, locked};
use millrace_catalog::{Actor, CatalogError, ChangeError, UtcTime};
use sea_orm::prelude::Uuid;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QueryOrder};

/// Export that was resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unpaused {
    /// Export with its newest runs.
    pub view: BatchExportView,
    /// Backfill of the time that it was paused, if that was asked for.
    pub backfill: Option<backfills::Model>,
}

impl BatchExports<'_> {
    /// Pauses an export. One that is paused stays so, with the time of its pause.
    ///
    /// # Errors
    ///
    /// No right to write, or no such export.
    pub async fn pause(
        self,
        actor: &Actor,
        place: ExportPlace,
        id: Uuid,
    ) -> Result<BatchExportView, ChangeError> {
        let transaction = self.0.begin().await?;
        let paused = async {
            self.set_paused(&transaction, actor, place, id, true)
                .await?;
            let view = find_view(&transaction, place, id).await?;
            Ok(view.ok_or_else(|| not_found(id))?)
        };
        let paused = paused.await;
        self.0.finish(transaction, paused).await
    }

    /// Resumes an export; `with_backfill` asks for what was missed. One that is not paused missed
    /// nothing.
    ///
    /// # Errors
    ///
    /// No right to write, or no such export.
    pub async fn unpause(
        self,
        actor: &Actor,
        place: ExportPlace,
        id: Uuid,
        with_backfill: bool,
    ) -> Result<Unpaused, ChangeError> {
        let transaction = self.0.begin().await?;
        let unpaused = async {
            let change = self
                .set_paused(&transaction, actor, place, id, false)
                .await?;
            let before = change.before;
            let range = BackfillRange {
                start_at: before.paused_since,
                end_at: Some(change.at),
            };
            let missed = before.paused && range.start_at < range.end_at;
            let backfill = if with_backfill && missed {
                let request = BackfillRequest {
                    range,
                    at: change.at,
                    // What was not skipped is in windows by the clock.
                    windows_from: Some(change.skipped_from.unwrap_or(change.at)),
                };
                let asked = Backfills::new(self.0).insert(&transaction, actor, &before, request);
                Some(asked.await?)
            } else {
                None
            };
            let view = find_view(&transaction, place, id).await?;
            let view = view.ok_or_else(|| not_found(id))?;
            Ok(Unpaused { view, backfill })
        };
        let unpaused = unpaused.await;
        self.0.finish(transaction, unpaused).await
    }

    /// Pauses all exports of an organization that may not use them any more, and cancels their
    /// backfills. The organization is locked.
    pub(super) async fn pause_all_of(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        organization_id: Uuid,
    ) -> Result<(), Abort> {
        let place = ExportPlace {
            organization_id,
            project_id: None,
        };
        self.pause_unreadable(within, organization_id).await?;
        let all = of(place)
            .filter(is_readable())
            .order_by_asc(exports::Column::Id);
        for before in locked(within, all).all(within).await? {
            let open = backfills::Entity::find()
                .filter(backfills::Column::BatchExportId.eq(before.id))
                .filter(backfills::Column::Status.is_in(RunStatus::OPEN));
            for backfill in locked(within, open).all(within).await? {
                Backfills::new(self.0)
                    .cancel_within(within, actor, &before, backfill)
                    .await?;
            }
            // Read again, as a cancelled run may hold it.
            let Some(before) = lock_export(within, before.id).await? else {
                continue;
            };
            if before.paused {
                continue;
            }
            let mut after = before.clone();
            mark_paused(&mut after, self.0.now());
            self.save(within, actor, &before, after).await?;
            let message = "The export is paused: the organization may not use batch exports now.";
            ExportLogs::new(self.0)
                .log(within, before.id, None, LogLevel::Warning, message)
                .await?;
        }
        Ok(())
    }

    /// Pauses or resumes an export.
    async fn set_paused(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        place: ExportPlace,
        id: Uuid,
        paused: bool,
    ) -> Result<PauseChange, Abort> {
        let before = match paused {
            true => found_to_stop(within, actor, place, id).await?,
            false => found_for_use(within, actor, place, id).await?,
        };
        let mut change = PauseChange {
            at: self.0.now(),
            skipped_from: None,
            before,
        };
        let before = &change.before;
        if before.paused == paused {
            return Ok(change);
        }
        let mut after = before.clone();
        if paused {
            mark_paused(&mut after, change.at);
        } else {
            change.skipped_from = resume(&mut after, change.at)?;
        }
        self.save(within, actor, before, after).await?;
        let message = if paused {
            "Somebody paused the export."
        } else {
            "Somebody lets the export run again."
        };
        ExportLogs::new(self.0)
            .log(within, id, None, LogLevel::Info, message)
            .await?;
        Ok(change)
    }
}

/// Change of an export's pause.
struct PauseChange {
    before: exports::Model,
    /// Time of the change.
    at: UtcTime,
    /// Start of the windows that were skipped; `None`: none were.
    skipped_from: Option<UtcTime>,
}

/// Pauses an export that runs.
pub(super) fn mark_paused(export: &mut exports::Model, now: UtcTime) {
    if !export.paused {
        export.last_paused_at = Some(now);
        export.paused_since = Some(now);
        export.paused = true;
    }
}

/// Resumes an export that is paused. Returns the start of the windows that ended meanwhile, which
/// are skipped.
///
/// # Errors
///
/// [`CatalogError::WrongInterval`].
pub(super) fn resume(
    export: &mut exports::Model,
    now: UtcTime,
) -> Result<Option<UtcTime>, CatalogError> {
    if !export.paused {
        return Ok(None);
    }
    let skipped_from = skip_paused_windows(export, now)?;
    export.paused_since = None;
    export.resumed_at = Some(now);
    export.paused = false;
    Ok(skipped_from)
}
