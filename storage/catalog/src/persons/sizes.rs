//! How many distinct ids persons have that shall become part of others: all of these go over in the
//! transaction of the merge, so they are bounded, and counted before.
//!
//! What is counted is what the tables have from before the transaction; what it has changed since is
//! kept here for every person, as anybody may be merged later in it. So it makes no difference which updates
//! are one transaction.

use super::load::some_ids_of_person;
use super::update::PersonUpdate;
use super::world::{PersonKey, World};
use sea_orm::{DatabaseTransaction, DbErr};
use std::collections::HashMap;
use uuid::Uuid;

/// Ids of persons, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Ids that a person may have to become part of another one; `None`: any number.
    pub ids_max: Option<u64>,
    /// Ids that persons have got since the transaction began, less those that they lost.
    gained: HashMap<PersonKey, i64>,
    /// Ids that the tables have.
    counted: HashMap<PersonKey, Counted>,
    /// Rows that were counted: as many are about to be written.
    pub rows_counted: usize,
}

#[derive(Clone, Copy, Debug)]
struct Counted {
    count: i64,
    /// Whether counting ended before there were no more.
    is_cut: bool,
}

impl Sizes {
    /// Sizes of nobody yet.
    pub fn new(ids_max: Option<u64>) -> Self {
        Self {
            ids_max,
            ..Self::default()
        }
    }

    /// Notes that an id has gone from one person to another.
    pub fn attach(&mut self, team: i64, before: Option<Uuid>, after: Uuid) {
        if before == Some(after) {
            return;
        }
        if let Some(before) = before {
            *self.gained.entry((team, before)).or_default() -= 1;
        }
        *self.gained.entry((team, after)).or_default() += 1;
    }

    /// Notes that all ids of one person go over to another, unless they are too many; answers whether.
    pub fn join(&mut self, part: PersonKey, whole: PersonKey) -> bool {
        let ids = self.ids_of(part);
        if ids > self.ids_max() {
            return false;
        }
        *self.gained.entry(part).or_default() -= ids;
        *self.gained.entry(whole).or_default() += ids;
        true
    }

    /// How many rows of a person have to be counted to know whether it has too many ids; `None` if
    /// that is known.
    fn rows_to_count(&self, person: PersonKey) -> Option<u64> {
        let more = self.ids_max().saturating_sub(self.gained(person));
        // It has too many by this transaction alone.
        let rows_max = u64::try_from(more.saturating_add(1)).ok()?;
        let is_known = self
            .counted
            .get(&person)
            .is_some_and(|counted| !counted.is_cut || counted.count > more);
        (!is_known).then_some(rows_max)
    }

    fn ids_max(&self) -> i64 {
        let ids_max = self.ids_max.and_then(|max| i64::try_from(max).ok());
        ids_max.unwrap_or(i64::MAX)
    }

    fn ids_of(&self, person: PersonKey) -> i64 {
        let counted = self.counted.get(&person);
        let counted = counted.map_or(0, |counted| counted.count);
        counted.saturating_add(self.gained(person))
    }

    fn gained(&self, person: PersonKey) -> i64 {
        self.gained.get(&person).copied().unwrap_or_default()
    }
}

/// Counts the ids of the person that an update would make part of another one.
pub(super) async fn count_before(
    within: &DatabaseTransaction,
    world: &mut World,
    update: &PersonUpdate,
) -> Result<(), DbErr> {
    let Some(person) = world.part_by(update) else {
        return Ok(());
    };
    let Some(rows_max) = world.sizes.rows_to_count(person) else {
        return Ok(());
    };
    let found = some_ids_of_person(within, person, rows_max).await?;
    let counted = Counted {
        count: i64::try_from(found).unwrap_or(i64::MAX),
        is_cut: found >= rows_max,
    };
    world.sizes.rows_counted += usize::try_from(found).unwrap_or(usize::MAX);
    world.sizes.counted.insert(person, counted);
    Ok(())
}
