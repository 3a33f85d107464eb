//! Persons and groups in memory, and how an update changes them. No I/O: the rows that an update
//! needs were loaded before.

use super::id_counts::IdCounts;
use super::identities::KnownId;
use super::load::ids_of;
use super::new_ids::NewIds;
use super::registers::{Registers, Stamp};
use super::too_large::TooLargeUpdate;
use super::update::{PersonUpdate, Writes};
use millrace_rows::{PERSON_PROPERTIES_BYTES_MAX, UpdateKind};
use std::collections::{HashMap, HashSet};
use uuid::Uuid;

/// Group types that a project may have.
pub(super) const GROUP_TYPES_MAX: usize = 5;

/// Bytes of a group's type and key together: an index of PostgreSQL takes no more than 2 700.
const GROUP_NAME_BYTES_MAX: usize = 2_000;

/// Distinct id of a project.
pub(super) type IdKey = (i64, String);
/// Person of a project.
pub(super) type PersonKey = (i64, Uuid);
/// Group of a project: type and key.
pub(super) type GroupKey = (i64, String, String);

/// Loaded persons and groups, and their changes since.
#[derive(Debug, Default)]
pub(super) struct PersonState {
    /// Person of each id; `None` where there is no such id. The person may have been merged into
    /// another one since: [`PersonState::known`] resolves that.
    pub ids: HashMap<IdKey, Option<KnownId>>,
    pub persons: HashMap<PersonKey, Person>,
    pub groups: HashMap<GroupKey, Option<Group>>,
    /// Group types of each project, in the order of their positions.
    pub group_types: HashMap<i64, Vec<String>>,
    /// Merged persons, each with the person that it became part of.
    pub moved: HashMap<PersonKey, Uuid>,
    pub changed_ids: HashSet<IdKey>,
    pub changed_persons: HashSet<PersonKey>,
    pub changed_groups: HashSet<GroupKey>,
    pub changed_types: HashSet<(i64, String)>,
    pub new_ids: NewIds,
    pub id_counts: IdCounts,
    pub stats: UpdateStats,
    /// First of the updates that were left out as too large.
    pub first_too_large: Option<TooLargeUpdate>,
}

/// Counts of updates that were applied, refused and left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateStats {
    /// Updates of projects that exist.
    pub applied: u64,
    /// Updates of projects that are gone.
    pub without_project: u64,
    /// Persons that were merged into another one.
    pub merged: u64,
    /// Merges refused, as the id or the person to be merged belongs to an identified person.
    pub refused: u64,
    /// Merges refused, as the person to be merged has too many ids.
    pub too_many_ids: u64,
    /// Updates whose properties were left out, as there would have been too many.
    pub too_large: u64,
    /// Descriptions of groups left out, as their type would have been one too many.
    pub types_refused: u64,
    /// Distinct ids and groups that became known.
    pub new_ids: u64,
    /// Updates of persons and groups that were left out, or applied without an id that they name,
    /// as their project had too many new ids in that hour.
    pub over_limit: u64,
    /// Updates whose properties were left out, as their project's had grown by too much in that
    /// hour.
    pub over_byte_limit: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Person {
    pub created_at: i64,
    pub is_identified: bool,
    pub is_deleted: bool,
    pub properties: Properties,
}

impl Person {
    pub fn new(created_at: i64, is_deleted: bool) -> Self {
        Self {
            created_at,
            is_identified: false,
            is_deleted,
            properties: Properties::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub created_at: i64,
    pub properties: Properties,
}

/// Properties, with an upper bound of their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Properties {
    pub registers: Registers,
    bytes: usize,
}

/// Outcome of writing properties.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Nothing,
    Some,
    /// Nothing, as the properties would have counted so many bytes.
    TooMuch(usize),
}

impl Properties {
    pub fn new(registers: Registers) -> Self {
        let bytes = registers.bytes();
        Self { registers, bytes }
    }

    /// Bytes that these grow by if all is written.
    fn growth(&self, writes: &Writes) -> usize {
        let set = writes.set.0.iter().chain(writes.set_once.0.iter());
        let set = set.map(|(key, value)| self.registers.growth(key, value.get().len()));
        let unset = writes.unset.iter();
        set.sum::<usize>()
            + unset
                .map(|key| self.registers.growth(key, 0))
                .sum::<usize>()
    }

    fn write(&mut self, writes: &Writes, stamp: Stamp) -> Written {
        let added = writes.sizes().map(|(_, bytes)| bytes).sum::<usize>();
        if added > PERSON_PROPERTIES_BYTES_MAX {
            // Whatever is there, as the client was told that nothing is changed.
            return Written::TooMuch(added);
        }
        if self.bytes + added <= PERSON_PROPERTIES_BYTES_MAX {
            self.bytes += added;
            return put(&mut self.registers, writes, stamp);
        }
        let mut registers = self.registers.clone();
        let written = put(&mut registers, writes, stamp);
        let bytes = registers.bytes();
        if bytes > PERSON_PROPERTIES_BYTES_MAX {
            return Written::TooMuch(bytes);
        }
        *self = Self { registers, bytes };
        written
    }

    /// Merges another's properties into these.
    ///
    /// # Errors
    ///
    /// If that would exceed the limit: then these are as before, and what they would have become is
    /// returned.
    pub fn merge(&mut self, other: Self) -> Result<(), Registers> {
        let mut registers = self.registers.clone();
        registers.merge(other.registers);
        let bytes = registers.bytes();
        if bytes > PERSON_PROPERTIES_BYTES_MAX {
            return Err(registers);
        }
        *self = Self { registers, bytes };
        Ok(())
    }
}

/// Applies the writes of one event. `$set` goes before `$set_once`; a key that the event sets and
/// unsets is gone if it was there, else set.
fn put(registers: &mut Registers, writes: &Writes, stamp: Stamp) -> Written {
    let gone: HashSet<&String> = writes
        .unset
        .iter()
        .filter(|key| registers.has(key) || !writes.set.0.contains_key(*key))
        .collect();
    let mut has_changed = false;
    for key in &gone {
        has_changed |= registers.unset(key, stamp);
    }
    for (key, value) in writes.set.0.iter().filter(|(key, _)| !gone.contains(key)) {
        has_changed |= registers.set(key, stamp, value);
    }
    for (key, value) in &writes.set_once.0 {
        has_changed |= registers.set_once(key, stamp, value);
    }
    if has_changed {
        Written::Some
    } else {
        Written::Nothing
    }
}

impl PersonState {
    /// Number of rows that were looked up or made, or are about to be.
    pub fn rows(&self) -> usize {
        self.ids.len() + self.persons.len() + self.groups.len() + self.id_counts.rows_counted
    }

    /// Applies one update. All rows that it names must have been loaded.
    pub fn apply(&mut self, update: &PersonUpdate) {
        self.stats.applied += 1;
        if !update.group_type.is_empty() {
            self.describe_group(update);
        }
        if update.distinct_id.is_empty() {
            return;
        }
        let unknown = ids_of(update).filter(|(project, id)| self.known(*project, id).is_none());
        let made = unknown.count() as u64;
        if self.admits(update, made) {
            self.update_person(update);
        } else if let Some(rest) = self.without_unknown(update) {
            self.update_person(&rest);
        }
    }

    fn describe_group(&mut self, update: &PersonUpdate) {
        let project = update.project_id.0;
        let (type_bytes, key_bytes) = (update.group_type.len(), update.group_key.len());
        if type_bytes + key_bytes > GROUP_NAME_BYTES_MAX {
            let names = [("$group_type", type_bytes), ("$group_key", key_bytes)];
            self.leave_out(update, type_bytes + key_bytes, names.into_iter());
            return;
        }
        let key = (project, update.group_type.clone(), update.group_key.clone());
        let is_known = self.groups.get(&key).is_some_and(Option::is_some);
        let types = self.group_types.entry(project).or_default();
        let is_type_known = types.contains(&update.group_type);
        if !is_type_known && types.len() >= GROUP_TYPES_MAX {
            self.stats.types_refused += 1;
            return;
        }
        if !self.admits(update, u64::from(!is_known)) {
            return;
        }
        if !is_type_known {
            let types = self.group_types.entry(project).or_default();
            types.push(update.group_type.clone());
            self.changed_types
                .insert((project, update.group_type.clone()));
        }
        let found = self.groups.entry(key.clone()).or_default();
        let mut has_changed = found.is_none();
        let group = found.get_or_insert_with(|| Group {
            created_at: update.timestamp.0,
            properties: Properties::default(),
        });
        has_changed |= update.timestamp.0 < group.created_at;
        group.created_at = group.created_at.min(update.timestamp.0);
        let writes = update.group_writes();
        let growth = group.properties.growth(&writes);
        if self.new_ids.admit_bytes(update, growth) {
            match group.properties.write(&writes, stamp(update)) {
                Written::Nothing => {}
                Written::Some => {
                    has_changed = true;
                    self.new_ids.grew(update, growth);
                }
                Written::TooMuch(bytes) => self.leave_out(update, bytes, writes.sizes()),
            }
        } else {
            self.stats.over_byte_limit += 1;
        }
        if has_changed {
            self.changed_groups.insert(key);
        }
    }

    fn update_person(&mut self, update: &PersonUpdate) {
        let (project, id) = (update.project_id.0, update.distinct_id.as_str());
        match update.kind {
            UpdateKind::Properties => {
                if self.person_of(project, id).is_none() {
                    self.make_person(update);
                }
            }
            UpdateKind::Identify => self.identify(update),
            UpdateKind::Alias | UpdateKind::Merge => self.merge(update),
        }
        let (Some(person), Some(record)) =
            (self.person_of(project, id), self.record_of(project, id))
        else {
            return;
        };
        let names = update.kind != UpdateKind::Properties;
        if names
            && let Some(named) = self.persons.get_mut(&(project, person))
            && !named.is_identified
        {
            named.is_identified = true;
            self.changed_persons.insert((project, person));
        }
        if self.write_record((project, record), update) {
            self.changed_persons
                .extend([(project, record), (project, person)]);
        }
    }

    /// Writes an update's properties to a person, or to a device's own record; answers whether that
    /// changed anything.
    fn write_record(&mut self, key: PersonKey, update: &PersonUpdate) -> bool {
        let mut has_changed = false;
        let record = self.persons.entry(key).or_insert_with(|| {
            has_changed = true;
            // No event said anything of this id before it was identified.
            Person::new(update.timestamp.0, true)
        });
        has_changed |= update.timestamp.0 < record.created_at;
        record.created_at = record.created_at.min(update.timestamp.0);
        let writes = update.person_writes();
        let growth = record.properties.growth(&writes);
        if !self.new_ids.admit_bytes(update, growth) {
            self.stats.over_byte_limit += 1;
            return has_changed;
        }
        match record.properties.write(&writes, stamp(update)) {
            Written::Nothing => {}
            Written::Some => {
                has_changed = true;
                self.new_ids.grew(update, growth);
            }
            Written::TooMuch(bytes) => self.leave_out(update, bytes, writes.sizes()),
        }
        has_changed
    }
}

pub(super) const fn stamp(update: &PersonUpdate) -> Stamp {
    Stamp {
        at: update.timestamp.0,
        by: update.uuid,
    }
}
