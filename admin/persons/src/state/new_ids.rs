//! Limits on what a project may add to the catalog by updates that arrive within an hour: distinct
//! ids and groups, and bytes of properties.
//!
//! Anybody who knows a project's key can make up ids and properties, and each is kept for good.
//! Beyond the limit an update that names an unknown id or group, or whose properties take more
//! bytes, is left out; events are stored all the same. If the update names a known id as well, it
//! is applied to that id alone, so that made-up ids cannot keep a user from being named. Hours are
//! those of the arrival, so the result does not depend on when updates are applied, or whether they
//! are applied again.

use super::load::SLICE;
use super::person_state::PersonState;
use super::update::PersonUpdate;
use millrace_catalog::UtcTime;
use millrace_catalog::entities::person_new_ids as counts;
use millrace_rows::{ProjectId, UpdateKind};
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, DatabaseTransaction, DbErr, EntityTrait, IntoActiveModel, QueryFilter};
use std::collections::{HashMap, HashSet};

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// Limits on what a project may add within an hour; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrowthLimits {
    /// Distinct ids and groups that become known.
    pub ids_per_hour_max: Option<u64>,
    /// Bytes that properties of persons and groups grow by.
    pub bytes_per_hour_max: Option<u64>,
}

/// Kind of growth that is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowthKind {
    /// Distinct ids and groups.
    Ids,
    /// Bytes of properties.
    Bytes,
}

/// Project that reached a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedProject {
    /// The project.
    pub project_id: ProjectId,
    /// Start of the hour in which the updates arrived that were left out.
    pub hour: UtcTime,
    /// Limit that it reached.
    pub growth: GrowthKind,
}

/// Growth of the projects in their hour.
#[derive(Debug, Default)]
pub(super) struct NewIds {
    limits: GrowthLimits,
    counts: HashMap<i64, Count>,
    limited: Vec<LimitedProject>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    hour: i64,
    ids: u64,
    ids_left_out: u64,
    bytes: u64,
    bytes_left_out: u64,
    has_changed: bool,
}

impl NewIds {
    pub fn new(limits: GrowthLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Returns true if an update may make so many ids or groups known; they count from now on.
    pub fn admit(&mut self, update: &PersonUpdate, made: u64) -> bool {
        let Some(per_hour_max) = self.limits.ids_per_hour_max.filter(|_| made > 0) else {
            return true;
        };
        let count = self.count(update);
        let is_admitted = count.ids.saturating_add(made) <= per_hour_max;
        let left_out_before = count.ids_left_out;
        if is_admitted {
            count.ids += made;
        } else {
            count.ids_left_out += 1;
        }
        if !is_admitted && left_out_before == 0 {
            self.note_limited(update, GrowthKind::Ids);
        }
        is_admitted
    }

    /// Returns true if properties may grow by so many bytes with an update; [`Self::grew`] counts
    /// them.
    pub fn admit_bytes(&mut self, update: &PersonUpdate, bytes: usize) -> bool {
        let Some(per_hour_max) = self.limits.bytes_per_hour_max.filter(|_| bytes > 0) else {
            return true;
        };
        let count = self.count(update);
        if count.bytes.saturating_add(bytes as u64) <= per_hour_max {
            return true;
        }
        count.bytes_left_out += 1;
        if count.bytes_left_out == 1 {
            self.note_limited(update, GrowthKind::Bytes);
        }
        false
    }

    /// Counts bytes that properties have grown by.
    pub fn grew(&mut self, update: &PersonUpdate, bytes: usize) {
        if self.limits.bytes_per_hour_max.is_some() && bytes > 0 {
            self.count(update).bytes += bytes as u64;
        }
    }

    /// Count of an update's project, for the hour of its arrival or a later one.
    fn count(&mut self, update: &PersonUpdate) -> &mut Count {
        let hour = hour_of(update);
        let count = self.counts.entry(update.project_id.0).or_default();
        if count.hour < hour {
            *count = Count {
                hour,
                ..Count::default()
            };
        }
        count.has_changed = true;
        count
    }

    fn note_limited(&mut self, update: &PersonUpdate, growth: GrowthKind) {
        self.limited.push(LimitedProject {
            project_id: update.project_id,
            hour: UtcTime(hour_of(update)),
            growth,
        });
    }

    /// Projects that reached a limit with these updates, once in each hour.
    pub fn limited(&self) -> Vec<LimitedProject> {
        self.limited.clone()
    }

    /// Loads the counts of the updates' projects that are not there yet.
    pub async fn load(
        &mut self,
        within: &DatabaseTransaction,
        updates: &[&PersonUpdate],
    ) -> Result<(), DbErr> {
        if self.limits == GrowthLimits::default() {
            return Ok(());
        }
        let project_ids = updates.iter().map(|update| update.project_id.0);
        let project_ids: HashSet<i64> = project_ids
            .filter(|it| !self.counts.contains_key(it))
            .collect();
        let project_ids: Vec<i64> = project_ids.into_iter().collect();
        let unsigned = |count: i64| u64::try_from(count).unwrap_or(0);
        for slice in project_ids.chunks(SLICE) {
            let found = counts::Entity::find()
                .filter(counts::Column::TeamId.is_in(slice.iter().copied()))
                .all(within)
                .await?;
            for row in found {
                let count = Count {
                    hour: row.hour.0,
                    ids: unsigned(row.made),
                    ids_left_out: unsigned(row.left_out),
                    bytes: unsigned(row.bytes),
                    bytes_left_out: unsigned(row.bytes_left_out),
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
        changed.sort_unstable_by_key(|(project, _)| **project);
        let mut again = OnConflict::column(counts::Column::TeamId);
        again.update_columns([
            counts::Column::Hour,
            counts::Column::Made,
            counts::Column::LeftOut,
            counts::Column::Bytes,
            counts::Column::BytesLeftOut,
        ]);
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for slice in changed.chunks(SLICE) {
            let rows = slice.iter().map(|(project, count)| {
                let row = counts::Model {
                    team_id: **project,
                    hour: UtcTime(count.hour),
                    made: signed(count.ids),
                    left_out: signed(count.ids_left_out),
                    bytes: signed(count.bytes),
                    bytes_left_out: signed(count.bytes_left_out),
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

/// Start of the hour in which an update arrived.
fn hour_of(update: &PersonUpdate) -> i64 {
    let at = update.position.created_at.0;
    at - at.rem_euclid(MICROS_PER_HOUR)
}

impl PersonState {
    /// Returns true if so many ids or groups may become known by an update.
    pub fn admits(&mut self, update: &PersonUpdate, made: u64) -> bool {
        let is_admitted = self.new_ids.admit(update, made);
        if is_admitted {
            self.stats.new_ids += made;
        } else {
            self.stats.over_limit += 1;
        }
        is_admitted
    }

    /// Removes an id that may not become known from an update. `None` if nothing is left: an
    /// `$identify` of an unknown user says nothing of the device.
    pub fn without_unknown(&self, update: &PersonUpdate) -> Option<PersonUpdate> {
        let is_merge = matches!(update.kind, UpdateKind::Alias | UpdateKind::Merge);
        let other = is_merge.then_some(&update.other_id);
        let mut ids = [Some(&update.distinct_id), other].into_iter().flatten();
        let id = ids.find(|id| self.known(update.project_id.0, id).is_some())?;
        Some(PersonUpdate {
            distinct_id: id.clone(),
            other_id: String::new(),
            ..update.clone()
        })
    }
}
