//! Persons, their distinct ids, and groups: the state that events' updates lead to.
//!
//! | Module | Holds |
//! |---|---|
//! | `handle` | [`PersonStore`], which has the operations |
//! | `update` | [`PersonUpdate`]: the change that one event makes |
//! | `registers` | properties that remember when they were written |
//! | `person_state` | persons and groups in memory, to which updates are applied; no I/O |
//! | `identities` | identity resolution: distinct ids of one person; no I/O |
//! | `id_counts` | limit on the distinct ids that a merge moves |
//! | `new_ids` | limit on the distinct ids and groups that become known |
//! | `too_large` | [`TooLargeUpdate`]: the first update that a person or group had no room for |
//! | `progress`, `backlogs` | positions up to which updates are applied |
//! | `load`, `save` | from the tables and back |
//! | `device_properties` | properties that a person shows from its devices |
//! | `changes`, `copied` | rows to copy to ClickHouse; the latest that were copied |
//!
//! Updates of a project are applied in the order of their arrival, many in one transaction, which
//! also records the position of the last one: none is applied twice, even after a crash. A caller
//! says from which position it applies; if the catalog is at another one, another process has
//! applied updates, and nothing happens. All projects share one position, but for those with a
//! backlog, which have their own.
//!
//! A person is known from the first event about it. Its id is [`millrace_rows::person_id`] of the
//! distinct id which that event had. It loses the id only when it is merged into another person.

mod backlogs;
mod changes;
mod copied;
mod device_properties;
mod handle;
mod id_counts;
mod identities;
mod load;
mod new_ids;
mod person_state;
mod progress;
mod registers;
mod save;
#[cfg(test)]
mod tests;
mod too_large;
mod update;

pub use changes::{ChangedGroup, ChangedId, ChangedPerson};
pub use handle::PersonStore;
pub use new_ids::{GrowthKind, GrowthLimits, LimitedProject};
pub use person_state::UpdateStats;
pub use progress::{PersonBacklog, PersonProgress};
pub use too_large::TooLargeUpdate;
pub use update::{PersonUpdate, UpdatePosition};

use id_counts::IdCounts;
use millrace_catalog::entities::projects;
use millrace_catalog::{CatalogError, UtcTime};
use millrace_rows::ProjectId;
use new_ids::NewIds;
use person_state::PersonState;
use sea_orm::sea_query::LockType;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use std::collections::HashSet;
use uuid::Uuid;

/// Updates whose persons are loaded at once.
const CHUNK_UPDATES: usize = 500;
/// Rows that are looked up or made before a transaction is ended early. In SQLite all other writers
/// wait for it: lease renewals, nodes that publish their watermark, requests of the API.
const ROWS_MAX: usize = 4_000;
/// Bytes of properties, loaded or of updates, before a transaction is ended early.
const BYTES_MAX: usize = 8 << 20;

/// Options for applying updates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Time before which all of the updates arrived, as the nodes have published. With updates of a
    /// backlog among them, the step has no lower number: they arrived long ago.
    pub before: Option<UtcTime>,
    /// Limits on what a project may add by updates that arrive within an hour.
    pub growth: GrowthLimits,
    /// Distinct ids that a person may have to be merged into another one; all of them move in one
    /// transaction.
    pub merged_ids_max: Option<u64>,
}

/// Result of one transaction of updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedUpdates {
    /// Progress after the transaction.
    pub progress: PersonProgress,
    /// Number of updates that it applied, from the first on.
    pub count: usize,
    /// Counts of what the updates did.
    pub stats: UpdateStats,
    /// First of the merges that were refused, as the person to be merged is identified.
    pub first_refused: Option<RefusedMerge>,
    /// First of the updates that were left out as too large.
    pub first_too_large: Option<TooLargeUpdate>,
    /// Projects that reached their limit with this step.
    pub limited: Vec<LimitedProject>,
}

/// Merge that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedMerge {
    /// Project of the event.
    pub project_id: ProjectId,
    /// Uuid of the event that asked for it.
    pub uuid: Uuid,
}

impl PersonStore<'_> {
    /// Applies updates that follow those of `from`, those of each project in their order, but no
    /// more than keeps other writers waiting for a moment; the caller repeats the call for the
    /// rest. `None`: another process has applied updates since.
    ///
    /// # Errors
    ///
    /// Any database error; then nothing was applied.
    pub async fn apply(
        self,
        from: &PersonProgress,
        updates: &[PersonUpdate],
        options: ApplyOptions,
    ) -> Result<Option<AppliedUpdates>, CatalogError> {
        let transaction = self.0.begin().await?;
        let applied = apply(&transaction, from, updates, options).await;
        match applied {
            Ok(Some(applied)) => {
                self.0.commit(transaction).await?;
                Ok(Some(applied))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.0.error(&error)),
        }
    }
}

async fn apply(
    within: &DatabaseTransaction,
    from: &PersonProgress,
    updates: &[PersonUpdate],
    options: ApplyOptions,
) -> Result<Option<AppliedUpdates>, DbErr> {
    let mut progress = progress::locked_progress(within).await?;
    if !progress.is_same_step(from) {
        return Ok(None);
    }
    let project_ids = existing_projects(within, updates).await?;
    let mut state = PersonState {
        new_ids: NewIds::new(options.growth),
        id_counts: IdCounts::new(options.merged_ids_max),
        ..PersonState::default()
    };
    let (mut count, mut bytes) = (0, 0);
    let mut first_refused = None;
    for chunk in updates.chunks(CHUNK_UPDATES) {
        let is_known = |update: &&PersonUpdate| project_ids.contains(&update.project_id.0);
        let known: Vec<&PersonUpdate> = chunk.iter().filter(is_known).collect();
        bytes += load::load(within, &mut state, &known).await?;
        bytes += known.iter().map(|update| update.bytes()).sum::<usize>();
        for update in chunk {
            count += 1;
            if !is_known(&update) {
                state.stats.without_project += 1;
                continue;
            }
            id_counts::count_before(within, &mut state, update).await?;
            let refused = state.stats.refused;
            state.apply(update);
            if state.stats.refused > refused {
                first_refused.get_or_insert(RefusedMerge {
                    project_id: update.project_id,
                    uuid: update.uuid,
                });
            }
            // One update may move many ids: the next one is of another transaction.
            if state.id_counts.rows_counted >= ROWS_MAX {
                break;
            }
        }
        if state.rows() >= ROWS_MAX || bytes > BYTES_MAX {
            break;
        }
    }
    progress.advance(updates.get(..count).unwrap_or(updates), options.before);
    let (stats, limited) = (state.stats, state.new_ids.limited());
    let first_too_large = state.first_too_large.take();
    save::save(within, state, progress.version).await?;
    progress::save(within, &progress).await?;
    Ok(Some(AppliedUpdates {
        progress,
        count,
        stats,
        first_refused,
        first_too_large,
        limited,
    }))
}

/// Finds which projects of the updates exist. They stay until the transaction ends: a deletion
/// waits before it has locked anything that this transaction needs.
async fn existing_projects(
    within: &DatabaseTransaction,
    updates: &[PersonUpdate],
) -> Result<HashSet<i64>, DbErr> {
    let project_ids: HashSet<i64> = updates.iter().map(|update| update.project_id.0).collect();
    let mut project_ids: Vec<i64> = project_ids.into_iter().collect();
    project_ids.sort_unstable();
    let mut existing = HashSet::new();
    for slice in project_ids.chunks(load::SLICE) {
        let mut query = projects::Entity::find()
            .select_only()
            .column(projects::Column::Id)
            .filter(projects::Column::Id.is_in(slice.iter().copied()))
            .order_by_asc(projects::Column::Id);
        if within.get_database_backend() == DbBackend::Postgres {
            query = query.lock(LockType::KeyShare);
        }
        existing.extend(query.into_tuple::<i64>().all(within).await?);
    }
    Ok(existing)
}
