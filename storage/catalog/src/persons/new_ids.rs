//! How many distinct ids and groups of a project may become known by what arrives within an hour.
//!
//! Anybody who knows a project's key can make up ids, and each is kept for good. Beyond the limit an
//! update that names an unknown id or group is left out; events are stored all the same. One that also
//! names an id that is known says of that what it would have said, so that whoever makes up ids keeps
//! no user from being named. Hours are those of the arrival, so that it does not matter when updates are
//! applied, or whether they are again.

use super::load::SLICE;
use super::update::PersonUpdate;
use super::world::World;
use crate::entities::person_new_ids as counts;
use crate::time::UtcTime;
use millrace_rows::{TeamId, UpdateKind};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter};
use std::collections::{HashMap, HashSet};

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// A project that reached its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedProject {
    /// The project.
    pub team_id: TeamId,
    /// Start of the hour in which the updates arrived that were left out.
    pub hour: UtcTime,
}

/// Counts of projects.
#[derive(Debug, Default)]
pub(super) struct NewIds {
    /// None without a limit; then nothing is counted.
    per_hour_max: Option<u64>,
    counts: HashMap<i64, Count>,
    limited: Vec<LimitedProject>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    hour: i64,
    made: u64,
    left_out: u64,
    has_changed: bool,
}

impl NewIds {
    pub fn new(per_hour_max: Option<u64>) -> Self {
        Self {
            per_hour_max,
            ..Self::default()
        }
    }

    /// Whether an update may make so many ids or groups known; they count from now on.
    pub fn admit(&mut self, update: &PersonUpdate, made: u64) -> bool {
        let Some(per_hour_max) = self.per_hour_max.filter(|_| made > 0) else {
            return true;
        };
        let at = update.place.created_at.0;
        let hour = at - at.rem_euclid(MICROS_PER_HOUR);
        let empty = Count {
            hour,
            made: 0,
            left_out: 0,
            has_changed: true,
        };
        let count = self.counts.entry(update.team_id.0).or_insert(empty);
        if count.hour < hour {
            *count = empty;
        }
        count.has_changed = true;
        let is_admitted = count.made + made <= per_hour_max;
        if is_admitted {
            count.made += made;
        } else {
            if count.left_out == 0 {
                self.limited.push(LimitedProject {
                    team_id: update.team_id,
                    hour: UtcTime(hour),
                });
            }
            count.left_out += 1;
        }
        is_admitted
    }

    /// Projects that reached their limit with these updates, once in each hour.
    pub fn limited(&self) -> Vec<LimitedProject> {
        self.limited.clone()
    }

    /// Loads the counts of the updates' projects that are not there yet.
    pub async fn load(
        &mut self,
        within: &DatabaseTransaction,
        updates: &[&PersonUpdate],
    ) -> Result<(), DbErr> {
        if self.per_hour_max.is_none() {
            return Ok(());
        }
        let teams = updates.iter().map(|update| update.team_id.0);
        let teams: HashSet<i64> = teams.filter(|it| !self.counts.contains_key(it)).collect();
        let teams: Vec<i64> = teams.into_iter().collect();
        for slice in teams.chunks(SLICE) {
            let found = counts::Entity::find()
                .filter(counts::Column::TeamId.is_in(slice.iter().copied()))
                .all(within)
                .await?;
            for row in found {
                let count = Count {
                    hour: row.hour.0,
                    made: u64::try_from(row.made).unwrap_or(0),
                    left_out: u64::try_from(row.left_out).unwrap_or(0),
                    has_changed: false,
                };
                self.counts.insert(row.team_id, count);
            }
        }
        Ok(())
    }

    /// Writes the counts that have changed.
    pub async fn save(&self, within: &DatabaseTransaction) -> Result<(), DbErr> {
        let mut changed: Vec<(&i64, &Count)> = self.counts.iter().collect();
        changed.retain(|(_, count)| count.has_changed);
        changed.sort_unstable_by_key(|(team, _)| **team);
        let mut again = OnConflict::column(counts::Column::TeamId);
        again.update_columns([
            counts::Column::Hour,
            counts::Column::Made,
            counts::Column::LeftOut,
        ]);
        for slice in changed.chunks(SLICE) {
            let rows = slice.iter().map(|(team, count)| {
                let row = counts::Model {
                    team_id: **team,
                    hour: UtcTime(count.hour),
                    made: i64::try_from(count.made).unwrap_or(i64::MAX),
                    left_out: i64::try_from(count.left_out).unwrap_or(i64::MAX),
                };
                row.into_active_model()
            });
            counts::Entity::insert_many(rows)
                .on_conflict(again.clone())
                .exec_without_returning(within)
                .await?;
        }
        Ok(())
    }
}

impl World {
    /// Whether so many ids or groups may become known by an update.
    pub fn admits(&mut self, update: &PersonUpdate, made: u64) -> bool {
        let is_admitted = self.new_ids.admit(update, made);
        if is_admitted {
            self.tally.new_ids += made;
        } else {
            self.tally.over_limit += 1;
        }
        is_admitted
    }

    /// Takes an id that may not become known out of an update. None if nothing is left: what an
    /// `$identify` of an unknown user says is not the device's.
    pub fn without_unknown(&self, update: &PersonUpdate) -> Option<PersonUpdate> {
        let is_merge = matches!(update.kind, UpdateKind::Alias | UpdateKind::Merge);
        let other = is_merge.then_some(&update.other_id);
        let mut ids = [Some(&update.distinct_id), other].into_iter().flatten();
        let id = ids.find(|id| self.known(update.team_id.0, id).is_some())?;
        Some(PersonUpdate {
            distinct_id: id.clone(),
            other_id: String::new(),
            ..update.clone()
        })
    }
}
