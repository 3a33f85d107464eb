//! Persons, their distinct ids, and groups: what has become of what events say of them.
//!
//! | Module | Holds |
//! |---|---|
//! | `update` | [`PersonUpdate`]: what one event says |
//! | `registers` | properties that remember when they were written |
//! | `world` | persons and groups in memory, and what an update makes of them; no I/O |
//! | `identities` | which distinct ids are one person; no I/O either |
//! | `sizes` | how many distinct ids a merge may move |
//! | `new_ids` | how many distinct ids and groups may become known |
//! | `progress`, `backlogs` | how far updates are applied, and projects that others do not wait for |
//! | `load`, `save` | from the tables and back |
//! | `parts` | properties that a person has by its ids |
//! | `changes` | what has to be copied to ClickHouse |
//!
//! Updates of a project are applied in the order of their arrival, many in one transaction, in which the
//! place of the last one is noted, too: none is applied twice, whoever dies at which moment. Whoever
//! applies says from where; if the catalog is elsewhere by now, somebody else was at it, and
//! nothing happens. All projects have one place, but for those with a backlog, which have their own.
//!
//! A person is known from the first event that says anything of it. Its id is
//! [`millrace_rows::person_id`] of the distinct id which that event had. It loses the id only by
//! becoming part of another person.

mod backlogs;
mod changes;
mod identities;
mod load;
mod new_ids;
mod parts;
mod progress;
mod registers;
mod save;
mod sizes;
#[cfg(test)]
mod tests;
mod update;
mod world;

pub use changes::{ChangedGroup, ChangedId, ChangedPerson};
pub use new_ids::LimitedProject;
pub use progress::{PersonBacklog, PersonProgress};
pub use update::{PersonUpdate, UpdatePlace};
pub use world::Tally;

use crate::catalog::Catalog;
use crate::entities::projects;
use crate::error::CatalogError;
use crate::time::UtcTime;
use new_ids::NewIds;
use sea_orm::sea_query::LockType;
use sea_orm::{
    ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, EntityTrait, QueryFilter,
    QueryOrder, QuerySelect,
};
use sizes::Sizes;
use std::collections::HashSet;
use world::World;

/// Updates whose persons are loaded at once.
const CHUNK_UPDATES: usize = 500;
/// Rows that are looked up or made before a transaction is ended early. In SQLite all other writers wait
/// for it: those who extend a lease, nodes that say how far they are, requests of the API.
const ROWS_MAX: usize = 4_000;
/// Bytes of properties, loaded or of updates, before it is ended likewise.
const BYTES_MAX: usize = 8 << 20;

/// How updates are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The time before which all of them arrived, as all that was published says. Where updates of a
    /// backlog are among them, the step has no lower number: they arrived long ago.
    pub before: Option<UtcTime>,
    /// Distinct ids and groups of a project that may become known by what arrives within an hour.
    pub new_ids_per_hour_max: Option<u64>,
    /// Distinct ids that a person may have to become part of another one; all of them go over in one
    /// transaction.
    pub merged_ids_max: Option<u64>,
}

/// What one transaction did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedUpdates {
    /// Where it ended.
    pub progress: PersonProgress,
    /// How many updates it took, from the first on.
    pub count: usize,
    /// What they did.
    pub tally: Tally,
    /// Projects that reached their limit with this step.
    pub limited: Vec<LimitedProject>,
}

impl Catalog {
    /// Applies updates that follow those of `from`, those of each project in their order, but no more than
    /// keeps other writers waiting for a moment: whoever has more of them calls again. `None`: somebody
    /// else has applied updates since.
    ///
    /// # Errors
    ///
    /// What the database says; then nothing was applied.
    pub async fn apply_person_updates(
        &self,
        from: &PersonProgress,
        updates: &[PersonUpdate],
        options: ApplyOptions,
    ) -> Result<Option<AppliedUpdates>, CatalogError> {
        let transaction = self.begin().await?;
        let applied = apply(&transaction, from, updates, options).await;
        match applied {
            Ok(Some(applied)) => {
                self.commit(transaction).await?;
                Ok(Some(applied))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.error(&error)),
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
    if !progress.is_where(from) {
        return Ok(None);
    }
    let teams = existing_teams(within, updates).await?;
    let mut world = World {
        new_ids: NewIds::new(options.new_ids_per_hour_max),
        sizes: Sizes::new(options.merged_ids_max),
        ..World::default()
    };
    let (mut count, mut bytes) = (0, 0);
    for chunk in updates.chunks(CHUNK_UPDATES) {
        let is_known = |update: &&PersonUpdate| teams.contains(&update.team_id.0);
        let known: Vec<&PersonUpdate> = chunk.iter().filter(is_known).collect();
        bytes += load::load(within, &mut world, &known).await?;
        bytes += known.iter().map(|update| update.bytes()).sum::<usize>();
        for update in chunk {
            count += 1;
            if !is_known(&update) {
                world.tally.orphaned += 1;
                continue;
            }
            sizes::count_before(within, &mut world, update).await?;
            world.apply(update);
            // One update may move many ids: the next one is of another transaction.
            if world.sizes.rows_counted >= ROWS_MAX {
                break;
            }
        }
        if world.rows() >= ROWS_MAX || bytes > BYTES_MAX {
            break;
        }
    }
    progress.advance(updates.get(..count).unwrap_or(updates), options.before);
    let (tally, limited) = (world.tally, world.new_ids.limited());
    save::save(within, world, progress.version).await?;
    progress::save(within, &progress).await?;
    Ok(Some(AppliedUpdates {
        progress,
        count,
        tally,
        limited,
    }))
}

/// Which of the updates' projects there are. They stay until the transaction ends: whoever would
/// delete one waits before it has locked anything that this one needs.
async fn existing_teams(
    within: &DatabaseTransaction,
    updates: &[PersonUpdate],
) -> Result<HashSet<i64>, DbErr> {
    let teams: HashSet<i64> = updates.iter().map(|update| update.team_id.0).collect();
    let mut teams: Vec<i64> = teams.into_iter().collect();
    teams.sort_unstable();
    let mut existing = HashSet::new();
    for slice in teams.chunks(load::SLICE) {
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
