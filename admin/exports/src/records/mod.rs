//! Batch exports: rows of a project that are sent somewhere, window by window.
//!
//! The records are here: exports, their runs and backfills, and their log lines. The process that
//! makes runs works from these rows alone, so that a restart goes on where it stopped.
//!
//! | Module | Holds |
//! |---|---|
//! | `handles` | [`BatchExports`], [`ExportRuns`], [`Backfills`], [`ExportLogs`], [`ExportPlanner`] |
//! | `destination` | types of destinations and their fields; no I/O |
//! | `interval` | lengths of windows; no I/O |
//! | `size_limit` | limit on fields without a form of their own; no I/O |
//! | `write` | create, change, delete an export |
//! | `pause` | pause and resume |
//! | `features` | features of organizations, one of which exports need |
//! | `runs`, `backfills` | requests of people: list, start, retry, cancel |
//! | `backfill_snapshot` | settings of an export when a backfill of it was asked for |
//! | `empty_backfills` | backfills that ended without runs |
//! | `windows` | windows by the clock, due and skipped; no I/O |
//! | `plan` | runs of due windows, turn by turn |
//! | `backfill_round_robin` | next backfill to plan |
//! | `run_round_robin` | organization whose run is claimed next |
//! | `unknown_values` | exports with values of another version, which are left alone |
//! | `claims` | exclusive right of a process to make a run |
//! | `record_runs` | progress and end of the tries of a run |
//! | `cancel_runs` | cancellation of runs that have not ended |
//! | `create_runs` | rows of new runs |
//! | `backfill_progress` | runs that a backfill takes and has, and its end |
//! | `operator_wait` | exports that wait for the server's operator |
//! | `pending_work` | check for anything to plan or claim |
//! | `locks` | locks of exports and backfills, in their order |
//! | `latest` | newest runs of exports |
//! | `retention` | deletion of what ended long ago |
//! | `reseal` | secrets under another key |
//! | `audit` | entries of the activity log |
//! | `logs` | log lines of exports and runs |

mod audit;
mod backfill_progress;
mod backfill_round_robin;
mod backfill_snapshot;
mod backfills;
mod cancel_runs;
mod claims;
mod create_runs;
mod destination;
mod empty_backfills;
mod features;
mod handles;
mod interval;
mod latest;
mod locks;
mod logs;
mod operator_wait;
mod pause;
mod pending_work;
mod plan;
mod record_runs;
mod reseal;
mod retention;
mod run_round_robin;
mod runs;
mod size_limit;
mod unknown_values;
mod windows;
mod write;

pub use backfill_round_robin::{BACKFILL_RUNS_AHEAD, BackfillRoundRobin, OpenBackfill};
pub use backfills::BackfillRange;
pub use cancel_runs::TAKE_BACK_MAX;
pub use claims::ClaimedRun;
pub use create_runs::{NewRun, RunProgress};
pub use destination::{
    CheckedDestination, DestinationChange, DestinationField, DestinationLimits, DestinationSpec,
    FILE_FORMATS, FieldKind, FieldNeed, NeededWhen, Sample,
};
pub use features::set_features;
pub use handles::{Backfills, BatchExports, ExportLogs, ExportPlanner, ExportRuns};
pub use interval::{ExportInterval, IntervalError};
pub use latest::BatchExportView;
pub use logs::{ExportLogFilter, NewExportLog};
pub use pause::Unpaused;
pub use record_runs::RunOutcome;
pub use retention::{PrunedRuns, RunCursor};
pub use run_round_robin::RunRoundRobin;
pub use runs::{RunFilter, RunOrder};
pub use unknown_values::UnknownExportValue;
pub use write::{BatchExportChange, ExportWriter, NewBatchExport};

use crate::secrets::{SecretError, SecretKey};
use latest::with_runs;
use millrace_catalog::entities::batch_exports as exports;
use millrace_catalog::features::DATA_PIPELINES;
use millrace_catalog::transaction::{Abort, admit_to_pipelines, locked};
use millrace_catalog::{Actor, CatalogError, ChangeError, Page, PageRequest};
use millrace_rows::ProjectId;
use sea_orm::prelude::{Json, Uuid};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::collections::BTreeMap;
use unknown_values::is_readable;

/// Scope of a lookup: exports of an organization, or of one of its projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportPlace {
    /// Organization that owns the exports.
    pub organization_id: Uuid,
    /// Only exports of this project; `None`: of all projects.
    pub project_id: Option<ProjectId>,
}

impl BatchExports<'_> {
    /// Lists the exports of a scope, oldest first, each with its newest runs: three statements.
    /// Exports with a model or type that this version does not know are left out
    /// ([`BatchExports::unknown_values`]).
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn list(
        self,
        place: ExportPlace,
        page: PageRequest,
    ) -> Result<Page<BatchExportView>, CatalogError> {
        let read = async {
            let query = of(place).filter(is_readable());
            let count = query.clone().count(self.0.reader()).await?;
            let query = query
                .order_by_asc(exports::Column::CreatedAt)
                .order_by_asc(exports::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = with_runs(query).all(self.0.reader()).await?;
            let rows = rows.into_iter().map(BatchExportView::of).collect();
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.0.error(&error))
    }

    /// Finds one export.
    ///
    /// # Errors
    ///
    /// Any database error.
    pub async fn get(
        self,
        place: ExportPlace,
        id: Uuid,
    ) -> Result<Option<BatchExportView>, CatalogError> {
        let found = find_view(self.0.reader(), place, id).await;
        found.map_err(|error| self.0.error(&error))
    }
}

/// Opens the secrets of an export's destination; answers them by the names of their fields.
///
/// # Errors
///
/// Secrets were sealed with another key.
pub fn secrets_of(
    export: &exports::Model,
    key: &SecretKey,
) -> Result<BTreeMap<String, String>, SecretError> {
    open(export.id, &export.destination_secrets, key)
}

/// Opens the sealed secrets of an export.
fn open(id: Uuid, sealed: &Json, key: &SecretKey) -> Result<BTreeMap<String, String>, SecretError> {
    let sealed = sealed.as_object().into_iter().flatten();
    let open = |(name, sealed): (&String, &Json)| {
        let sealed = sealed.as_str().ok_or(SecretError::Sealed)?;
        let secret = key.open(&sealing_context(id, name), sealed)?;
        Ok((name.clone(), secret))
    };
    sealed.map(open).collect()
}

/// Context that a secret is sealed for.
fn sealing_context(id: Uuid, field: &str) -> String {
    format!("batch_exports/{id}/{field}")
}

fn of(place: ExportPlace) -> Select<exports::Entity> {
    let query =
        exports::Entity::find().filter(exports::Column::OrganizationId.eq(place.organization_id));
    match place.project_id {
        Some(project_id) => query.filter(exports::Column::TeamId.eq(project_id.0)),
        None => query,
    }
}

/// Reads one export with its newest runs, inside or outside of a transaction.
async fn find_view<C: ConnectionTrait>(
    db: &C,
    place: ExportPlace,
    id: Uuid,
) -> Result<Option<BatchExportView>, DbErr> {
    let query = of(place).filter(exports::Column::Id.eq(id));
    let found = with_runs(query).one(db).await?;
    Ok(found.map(BatchExportView::of))
}

/// Locks an export that an actor is about to change or to run. Both the actor's right and the
/// organization's feature are checked at this moment.
async fn found_for_use(
    within: &DatabaseTransaction,
    actor: &Actor,
    place: ExportPlace,
    id: Uuid,
) -> Result<exports::Model, Abort> {
    let organization = admit_to_pipelines(within, actor, place.organization_id).await?;
    organization.must_have(DATA_PIPELINES)?;
    locked_export(within, place, id).await
}

/// Locks an export that an actor is about to stop or delete. The actor's right is checked at this
/// moment; no feature is needed. Changes of the export's runs queue up behind this lock, too.
async fn found_to_stop(
    within: &DatabaseTransaction,
    actor: &Actor,
    place: ExportPlace,
    id: Uuid,
) -> Result<exports::Model, Abort> {
    admit_to_pipelines(within, actor, place.organization_id).await?;
    locked_export(within, place, id).await
}

async fn locked_export(
    within: &DatabaseTransaction,
    place: ExportPlace,
    id: Uuid,
) -> Result<exports::Model, Abort> {
    let query = of(place).filter(exports::Column::Id.eq(id));
    let found = locked(within, query).one(within).await?;
    found.ok_or_else(|| not_found(id).into())
}

fn not_found(id: Uuid) -> ChangeError {
    ChangeError::not_found("batch export", &id)
}
