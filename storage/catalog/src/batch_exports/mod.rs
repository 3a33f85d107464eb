//! Batch exports: rows of a project that are sent somewhere, window by window.
//!
//! What is here are the records: of exports, of their runs and backfills, and of what they have to
//! say. Whoever runs them goes by these rows, so that a restart goes on where it stopped.
//!
//! | Module | Holds |
//! |---|---|
//! | `destination` | types of destinations and their fields; no I/O |
//! | `interval` | how long windows are; no I/O |
//! | `latest` | the newest runs of exports |
//! | `write` | create, change, delete |
//! | `pause` | pause and unpause |
//! | `runs`, `backfills` | what people ask of them: list, start, retry, cancel |
//! | `plan` | which windows come next |
//! | `backfill_turns` | which backfill's next runs are made next |
//! | `claims` | whose a run is while it is made |
//! | `size` | how large fields may be that have no form of their own; no I/O |
//! | `turns` | which organization's run is claimed next |
//! | `waits` | since when exports wait for the server's operator |
//! | `work` | whether there is anything to plan or claim |
//! | `making` | the same for whoever makes them: begin, record, count |
//! | `forgetting` | what ended long ago |
//! | `reseal` | secrets under another key |
//! | `deeds` | what the log of activity is told |
//! | `logs` | what exports and runs have to say |

mod asked_for;
mod backfill_turns;
mod backfills;
mod claims;
mod deeds;
mod destination;
mod forgetting;
mod interval;
mod latest;
mod logs;
mod making;
mod pause;
mod plan;
mod reseal;
mod runs;
mod size;
mod turns;
mod waits;
mod work;
mod write;

pub use backfill_turns::{BACKFILL_RUNS_AHEAD, BackfillTurns, OpenBackfill};
pub use backfills::BackfillRange;
pub use claims::{ClaimedRun, RunOutcome};
pub use destination::{
    CheckedDestination, DestinationChange, DestinationField, DestinationLimits, DestinationSpec,
    FILE_FORMATS, FieldKind, FieldNeed, NeededWhen, Sample,
};
pub use forgetting::{ForgottenRuns, RunMark};
pub use interval::{ExportInterval, IntervalError};
pub use logs::{ExportLogFilter, NewExportLog};
pub use making::{NewRun, RunProgress};
pub use pause::Unpaused;
pub use runs::{RunFilter, RunOrder};
pub use turns::ExportTurns;
pub use write::{BatchExportChange, ExportWriter, NewBatchExport};

use crate::actor::Actor;
use crate::catalog::Catalog;
use crate::entities::batch_export_runs as run_rows;
use crate::entities::batch_exports as exports;
use crate::error::{CatalogError, ChangeError};
use crate::features::DATA_PIPELINES;
use crate::page::{Page, PageRequest};
use crate::secrets::{SecretError, SecretKey};
use crate::transaction::{Abort, admit_to_pipelines, locked};
use latest::with_runs;
use millrace_rows::TeamId;
use sea_orm::prelude::Uuid;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use std::collections::BTreeMap;

/// Whose exports are meant: of an organization, or of one of its projects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportPlace {
    /// Of which organization.
    pub organization_id: Uuid,
    /// Of this project only.
    pub team_id: Option<TeamId>,
}

/// An export as it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenBatchExport {
    /// Itself.
    pub export: exports::Model,
    /// Its newest runs, newest first.
    pub latest_runs: Vec<run_rows::Model>,
}

impl Catalog {
    /// The exports of a place, oldest first, each with its newest runs: three statements.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn list_batch_exports(
        &self,
        place: ExportPlace,
        page: PageRequest,
    ) -> Result<Page<SeenBatchExport>, CatalogError> {
        let read = async {
            let query = of(place);
            let count = query.clone().count(&self.db).await?;
            let query = query
                .order_by_asc(exports::Column::CreatedAt)
                .order_by_asc(exports::Column::Id)
                .offset(page.offset)
                .limit(page.limit);
            let rows = with_runs(query).all(&self.db).await?;
            let rows = rows.into_iter().map(SeenBatchExport::of).collect();
            Ok(Page { count, rows })
        };
        read.await.map_err(|error: DbErr| self.error(&error))
    }

    /// One of them.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn batch_export(
        &self,
        place: ExportPlace,
        id: Uuid,
    ) -> Result<Option<SeenBatchExport>, CatalogError> {
        let found = seen(&self.db, place, id).await;
        found.map_err(|error| self.error(&error))
    }
}

impl exports::Model {
    /// The secrets of its destination by the names of their fields.
    ///
    /// # Errors
    ///
    /// They were sealed with another key.
    pub fn secrets(&self, key: &SecretKey) -> Result<BTreeMap<String, String>, SecretError> {
        let sealed = self.destination_secrets.as_object().into_iter().flatten();
        let open = |(name, sealed): (&String, &serde_json::Value)| {
            let sealed = sealed.as_str().ok_or(SecretError::Sealed)?;
            let secret = key.open(&sealing_place(self.id, name), sealed)?;
            Ok((name.clone(), secret))
        };
        sealed.map(open).collect()
    }
}

/// What a secret is sealed for.
fn sealing_place(id: Uuid, field: &str) -> String {
    format!("batch_exports/{id}/{field}")
}

fn of(place: ExportPlace) -> Select<exports::Entity> {
    let query =
        exports::Entity::find().filter(exports::Column::OrganizationId.eq(place.organization_id));
    match place.team_id {
        Some(team_id) => query.filter(exports::Column::TeamId.eq(team_id.0)),
        None => query,
    }
}

/// One export, as seen; inside and outside of transactions.
async fn seen<C: ConnectionTrait>(
    db: &C,
    place: ExportPlace,
    id: Uuid,
) -> Result<Option<SeenBatchExport>, DbErr> {
    let query = of(place).filter(exports::Column::Id.eq(id));
    let found = with_runs(query).one(db).await?;
    Ok(found.map(SeenBatchExport::of))
}

/// One that an actor is about to change, or let run, who may at this moment, in an organization that may use
/// exports at this moment.
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

/// One that an actor is about to stop or delete who may at this moment: that takes no feature. Changes of its
/// runs queue up behind this lock, too.
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
