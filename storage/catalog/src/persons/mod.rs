//! Persons, their distinct ids, and groups: what has become of what events say of them.
//!
//! | Module | Holds |
//! |---|---|
//! | `update` | [`PersonUpdate`]: what one event says |
//! | `registers` | properties that remember when they were written |
//! | `world` | persons and groups in memory, and what an update makes of them; no I/O |
//! | `identities` | which distinct ids are one person; no I/O either |
//! | `load`, `save` | from the tables and back |
//! | `parts` | properties that a person has by its ids |
//! | `changes` | what has to be copied to ClickHouse |
//!
//! Updates are applied in the order of their arrival, many in one transaction, in which the place
//! of the last one is noted, too: none is applied twice, whoever dies at which moment. Whoever
//! applies says from where; if the catalog is elsewhere by now, somebody else was at it, and
//! nothing happens.
//!
//! A person is known from the first event that says anything of it. Its id is
//! [`millrace_rows::person_id`] of the distinct id which that event had. It loses the id only by
//! becoming part of another person.

mod changes;
mod identities;
mod load;
mod parts;
mod registers;
mod save;
#[cfg(test)]
mod tests;
mod update;
mod world;

pub use changes::{ChangedGroup, ChangedId, ChangedPerson};
pub use update::{PersonUpdate, UpdatePlace};
pub use world::Tally;

use crate::catalog::Catalog;
use crate::entities::{person_progress, projects};
use crate::error::CatalogError;
use crate::time::UtcTime;
use crate::transaction::locked;
use millrace_rows::Micros;
use sea_orm::sea_query::{Expr, LockType};
use sea_orm::{
    ActiveValue, ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, DbBackend, DbErr,
    EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};
use std::collections::HashSet;
use world::World;

/// The one row of progress.
const ROW: i32 = 1;
/// Updates whose persons are loaded at once.
const CHUNK_UPDATES: usize = 500;
/// Bytes of properties that are loaded before a transaction is ended early.
const LOADED_BYTES_MAX: usize = 64 << 20;

/// How far updates have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonProgress {
    /// The last one that was applied.
    pub place: UpdatePlace,
    /// The last step: what a transaction changes has its number.
    pub version: i64,
    /// The last step of which everything is in ClickHouse.
    pub copied: i64,
    /// Every update that arrived before is applied, and what it changed is in ClickHouse. No later
    /// step gets a lower number than this.
    pub passed: Option<UtcTime>,
}

/// What one transaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppliedUpdates {
    /// Where it ended.
    pub progress: PersonProgress,
    /// How many updates it took, from the first on.
    pub count: usize,
    /// What they did.
    pub tally: Tally,
}

impl Catalog {
    /// How far updates have been applied.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn person_progress(&self) -> Result<PersonProgress, CatalogError> {
        let found = person_progress::Entity::find_by_id(ROW).one(&self.writer);
        let row = found.await.map_err(|error| self.error(&error))?;
        row.map(PersonProgress::from)
            .ok_or_else(|| self.error(&lost()))
    }

    /// The arrival time before which everything that events say of persons and groups is applied
    /// and in ClickHouse; `None` until that is known.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn persons_watermark(&self) -> Result<Option<UtcTime>, CatalogError> {
        Ok(self.person_progress().await?.passed)
    }

    /// Applies updates that follow those of `from`, in their order; perhaps not all, if their
    /// persons have much to them. `None`: somebody else has applied updates since.
    ///
    /// # Errors
    ///
    /// What the database says; then nothing was applied.
    pub async fn apply_person_updates(
        &self,
        from: &PersonProgress,
        updates: &[PersonUpdate],
    ) -> Result<Option<AppliedUpdates>, CatalogError> {
        let transaction = self.begin().await?;
        let applied = apply(&transaction, from, updates).await;
        match applied {
            Ok(Some(applied)) => {
                self.commit(transaction).await?;
                Ok(Some(applied))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.error(&error)),
        }
    }

    /// Notes that everything up to a step is in ClickHouse.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_persons_copied(&self, version: i64) -> Result<(), CatalogError> {
        let column = person_progress::Column::Copied;
        let copied = person_progress::Entity::update_many()
            .col_expr(column, Expr::value(version))
            .filter(column.lt(version))
            .exec(&self.writer);
        copied.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Notes the arrival time before which everything is applied and in ClickHouse.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_persons_passed(&self, passed: UtcTime) -> Result<(), CatalogError> {
        let column = person_progress::Column::Passed;
        let is_later = Condition::any()
            .add(column.is_null())
            .add(column.lt(passed));
        let noted = person_progress::Entity::update_many()
            .col_expr(column, Expr::value(passed))
            .filter(is_later)
            .exec(&self.writer);
        noted.await.map(drop).map_err(|error| self.error(&error))
    }

    /// Has persons and groups copied to ClickHouse as a whole, as that is of another time than this
    /// catalog: what was copied between the two would never come.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn copy_persons_again(&self) -> Result<(), CatalogError> {
        let again = person_progress::Entity::update_many()
            .col_expr(person_progress::Column::Copied, Expr::value(0_i64))
            .exec(&self.writer);
        again.await.map(drop).map_err(|error| self.error(&error))
    }
}

async fn apply(
    within: &DatabaseTransaction,
    from: &PersonProgress,
    updates: &[PersonUpdate],
) -> Result<Option<AppliedUpdates>, DbErr> {
    let row = locked(within, person_progress::Entity::find_by_id(ROW));
    let row = row.one(within).await?.ok_or_else(lost)?;
    let mut progress = PersonProgress::from(row);
    if (progress.place, progress.version) != (from.place, from.version) {
        return Ok(None);
    }
    let teams = existing_teams(within, updates).await?;
    let mut world = World::default();
    let (mut count, mut loaded_bytes) = (0, 0);
    for chunk in updates.chunks(CHUNK_UPDATES) {
        let (known, orphaned): (Vec<&PersonUpdate>, Vec<_>) = chunk
            .iter()
            .partition(|update| teams.contains(&update.team_id.0));
        loaded_bytes += load::load(within, &mut world, &known).await?;
        known.into_iter().for_each(|update| world.apply(update));
        world.tally.orphaned += orphaned.len() as u64;
        count += chunk.len();
        if let Some(last) = chunk.last() {
            progress.place = last.place;
        }
        if loaded_bytes > LOADED_BYTES_MAX {
            break;
        }
    }
    progress.version = (progress.version + 1).max(progress.place.created_at.0);
    let tally = world.tally;
    save::save(within, world, progress.version).await?;
    let row = person_progress::ActiveModel {
        id: ActiveValue::Unchanged(ROW),
        created_at: ActiveValue::Set(progress.place.created_at.into()),
        request_id: ActiveValue::Set(progress.place.request_id),
        position: ActiveValue::Set(progress.place.index),
        version: ActiveValue::Set(progress.version),
        ..Default::default()
    };
    person_progress::Entity::update(row).exec(within).await?;
    Ok(Some(AppliedUpdates {
        progress,
        count,
        tally,
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

fn lost() -> DbErr {
    DbErr::RecordNotFound("the progress of persons".to_owned())
}

impl From<person_progress::Model> for PersonProgress {
    fn from(row: person_progress::Model) -> Self {
        Self {
            place: UpdatePlace {
                created_at: Micros(row.created_at.0),
                request_id: row.request_id,
                index: row.position,
            },
            version: row.version,
            copied: row.copied,
            passed: row.passed,
        }
    }
}
