//! Counts of persons' distinct ids, which bound a merge: all ids of the merged person move in the
//! transaction of the merge.
//!
//! The tables are counted as they were before the transaction; its own changes are kept here for
//! every person, as any person may be merged later in it. So the result does not depend on how
//! updates are divided into transactions.

use super::load::some_ids_of_person;
use super::person_state::{PersonKey, PersonState};
use super::update::PersonUpdate;
use sea_orm::{DatabaseTransaction, DbErr};
use std::collections::HashMap;
use uuid::Uuid;

/// Numbers of persons' ids, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct IdCounts {
    /// Ids that a person may have to be merged into another one; `None`: any number.
    pub ids_max: Option<u64>,
    /// Ids that persons got since the transaction began, less those that they lost.
    gained: HashMap<PersonKey, i64>,
    /// Ids that the tables have.
    counted: HashMap<PersonKey, IdCount>,
    /// Rows that were counted: as many are about to be written.
    pub rows_counted: usize,
}

#[derive(Clone, Copy, Debug)]
struct IdCount {
    count: i64,
    /// True if counting ended at its limit.
    is_cut: bool,
}

impl IdCounts {
    /// Starts with no counts.
    pub fn new(ids_max: Option<u64>) -> Self {
        Self {
            ids_max,
            ..Self::default()
        }
    }

    /// Records that an id has moved from one person to another.
    pub fn attach(&mut self, project: i64, before: Option<Uuid>, after: Uuid) {
        if before == Some(after) {
            return;
        }
        if let Some(before) = before {
            *self.gained.entry((project, before)).or_default() -= 1;
        }
        *self.gained.entry((project, after)).or_default() += 1;
    }

    /// Records that all ids of one person move to another, unless they are too many; answers
    /// whether they moved.
    pub fn join(&mut self, source: PersonKey, target: PersonKey) -> bool {
        let ids = self.ids_of(source);
        if ids > self.ids_max() {
            return false;
        }
        *self.gained.entry(source).or_default() -= ids;
        *self.gained.entry(target).or_default() += ids;
        true
    }

    /// Number of a person's rows to count until it is known whether it has too many ids; `None` if
    /// that is known.
    fn rows_to_count(&self, person: PersonKey) -> Option<u64> {
        let more = self.ids_max().saturating_sub(self.gained(person));
        // This transaction alone has given it too many.
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

/// Counts the ids of the person that an update would merge into another one.
pub(super) async fn count_before(
    within: &DatabaseTransaction,
    state: &mut PersonState,
    update: &PersonUpdate,
) -> Result<(), DbErr> {
    let Some(person) = state.merge_source(update) else {
        return Ok(());
    };
    let Some(rows_max) = state.id_counts.rows_to_count(person) else {
        return Ok(());
    };
    let found = some_ids_of_person(within, person, rows_max).await?;
    let counted = IdCount {
        count: i64::try_from(found).unwrap_or(i64::MAX),
        is_cut: found >= rows_max,
    };
    state.id_counts.rows_counted += usize::try_from(found).unwrap_or(usize::MAX);
    state.id_counts.counted.insert(person, counted);
    Ok(())
}
