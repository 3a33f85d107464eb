//! Identity resolution: which distinct ids belong to one person.
//!
//! `$identify` gives an anonymous id to a user: it belongs to the user who identified it first, by
//! the time of the events, in whatever order they arrive. So the id only moves, with the event that
//! took it, and may move once more when an earlier one arrives; its own properties stay in a record
//! of its own ([`PersonState::record_of`]), which is shown as part of the person that has the id. A
//! user, that is a person that was ever named, is never given to another one that way. An
//! `$identify` without an anonymous id, or with its own in its place, names its user and gives
//! nothing away.
//!
//! `$create_alias` and `$merge_dangerously` join persons for good, in the order of their arrival.
//! The ids that they name never move again, also where the person has the id already.

use super::person_state::{Person, PersonKey, PersonState, Properties, stamp};
use super::registers::Stamp;
use super::update::PersonUpdate;
use millrace_catalog::entities::person_distinct_ids;
use millrace_rows::{ProjectId, UpdateKind, person_id};
use uuid::Uuid;

/// Distinct id that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownId {
    /// Person of the id.
    pub person: Uuid,
    /// Earliest `$identify` of the id; none if the id is its person's own, or was merged for good.
    pub identified: Option<Stamp>,
}

impl From<&person_distinct_ids::Model> for KnownId {
    fn from(row: &person_distinct_ids::Model) -> Self {
        let first = row.identified_at.zip(row.identified_by);
        Self {
            person: row.person_id,
            identified: first.map(|(at, by)| Stamp { at: at.0, by }),
        }
    }
}

impl PersonState {
    /// Gives the anonymous id of an `$identify`, if it has one, to the user.
    pub fn identify(&mut self, update: &PersonUpdate) {
        let project = update.project_id.0;
        let user = self.user_of(update);
        if !update.has_other_id() {
            return;
        }
        let given = KnownId {
            person: user,
            identified: Some(stamp(update)),
        };
        let Some(known) = self.known(project, &update.other_id) else {
            self.attach(project, &update.other_id, given);
            return;
        };
        let holder = known.person;
        if known.identified.is_none() {
            self.give_person(update, given, holder);
        } else if given.identified < known.identified {
            self.attach(project, &update.other_id, given);
            self.changed_persons
                .extend([(project, holder), (project, user)]);
        } else if holder != user {
            self.stats.refused += 1;
        }
    }

    /// Person of the id that an `$identify` names as a user's. If the id was given to somebody as a
    /// device's, it becomes a person of its own, with all of its own properties, as if it had been
    /// named before.
    fn user_of(&mut self, update: &PersonUpdate) -> Uuid {
        let (project, id) = (update.project_id.0, update.distinct_id.as_str());
        let Some(known) = self.known(project, id) else {
            return self.make_person(update);
        };
        if known.identified.is_none() {
            return known.person;
        }
        let own = person_id(update.project_id, id);
        let record = self.persons.entry((project, own));
        let record = record.or_insert_with(|| Person::new(update.timestamp.0, true));
        record.is_deleted = false;
        let alone = KnownId {
            person: own,
            identified: None,
        };
        self.attach(project, id, alone);
        self.changed_persons
            .extend([(project, known.person), (project, own)]);
        self.stats.refused += 1;
        own
    }

    /// Gives an anonymous person to a user, unless it is a user itself.
    fn give_person(&mut self, update: &PersonUpdate, given: KnownId, holder: Uuid) {
        let project = update.project_id.0;
        if holder == given.person {
            return;
        }
        match self.persons.get_mut(&(project, holder)) {
            Some(person) if !person.is_identified => person.is_deleted = true,
            _ => {
                self.stats.refused += 1;
                return;
            }
        }
        self.stats.merged += 1;
        self.attach(project, &update.other_id, given);
        self.changed_persons
            .extend([(project, holder), (project, given.person)]);
    }

    /// Joins two ids in one person for good, if that is allowed.
    pub fn merge(&mut self, update: &PersonUpdate) {
        let project = update.project_id.0;
        if update.other_id.is_empty() {
            // The other id may not become known.
            self.keep_for_good(update, &update.distinct_id);
            return;
        }
        let own = self.person_of(project, &update.distinct_id);
        let other = self.person_of(project, &update.other_id);
        let known = |person| KnownId {
            person,
            identified: None,
        };
        match (own, other) {
            (None, None) => {
                let id = self.make_person(update);
                self.attach(project, &update.other_id, known(id));
            }
            (Some(own), None) => self.attach(project, &update.other_id, known(own)),
            (None, Some(other)) => self.attach(project, &update.distinct_id, known(other)),
            (Some(own), Some(other)) => {
                if own != other && !self.join(update, own, other) {
                    return;
                }
            }
        }
        for id in [&update.distinct_id, &update.other_id] {
            self.keep_for_good(update, id);
        }
    }

    /// Person that an update would merge into another one.
    pub fn merge_source(&self, update: &PersonUpdate) -> Option<PersonKey> {
        let project = update.project_id.0;
        if !matches!(update.kind, UpdateKind::Alias | UpdateKind::Merge) {
            return None;
        }
        let own = self.person_of(project, &update.distinct_id)?;
        let other = self.person_of(project, &update.other_id)?;
        let source = self.persons.get(&(project, other))?;
        let may_join = !source.is_identified || update.kind == UpdateKind::Merge;
        (own != other && may_join).then_some((project, other))
    }

    /// Makes an id that an update names its person's for good, with its own properties.
    fn keep_for_good(&mut self, update: &PersonUpdate, id: &str) {
        let project = update.project_id.0;
        let Some(KnownId { person, identified }) = self.known(project, id) else {
            return;
        };
        if identified.is_none() {
            return;
        }
        let known = KnownId {
            person,
            identified: None,
        };
        self.attach(project, id, known);
        let record = person_id(update.project_id, id);
        if record != person {
            self.move_properties(update, record, person);
        }
    }

    /// Merges one person into another, if it was never named or the event insists; answers whether
    /// it did.
    fn join(&mut self, update: &PersonUpdate, target: Uuid, source: Uuid) -> bool {
        let project = update.project_id.0;
        let Some(person) = self.persons.get(&(project, source)) else {
            return false;
        };
        if person.is_identified && update.kind != UpdateKind::Merge {
            self.stats.refused += 1;
            return false;
        }
        if !self.id_counts.join((project, source), (project, target)) {
            self.stats.too_many_ids += 1;
            return false;
        }
        self.move_properties(update, source, target);
        self.stats.merged += 1;
        self.moved.insert((project, source), target);
        true
    }

    /// Moves all properties of one person, or of an id, to a person.
    fn move_properties(&mut self, update: &PersonUpdate, source: Uuid, target: Uuid) {
        let project = update.project_id.0;
        let Some(merged) = self.persons.get_mut(&(project, source)) else {
            return;
        };
        let was = merged.clone();
        merged.is_deleted = true;
        merged.properties = Properties::default();
        if let Some(person) = self.persons.get_mut(&(project, target)) {
            person.created_at = person.created_at.min(was.created_at);
            person.is_identified |= was.is_identified;
            if let Err(both) = person.properties.merge(was.properties) {
                self.leave_out(update, both.bytes(), both.sizes());
            }
        }
        self.changed_persons
            .extend([(project, source), (project, target)]);
    }

    /// Creates the person of an update's own id.
    pub fn make_person(&mut self, update: &PersonUpdate) -> Uuid {
        let project = update.project_id.0;
        let id = person_id(update.project_id, &update.distinct_id);
        self.persons
            .insert((project, id), Person::new(update.timestamp.0, false));
        self.changed_persons.insert((project, id));
        let known = KnownId {
            person: id,
            identified: None,
        };
        self.attach(project, &update.distinct_id, known);
        id
    }

    fn attach(&mut self, project: i64, distinct_id: &str, known: KnownId) {
        let before = self.person_of(project, distinct_id);
        self.id_counts.attach(project, before, known.person);
        let key = (project, distinct_id.to_owned());
        self.ids.insert(key.clone(), Some(known));
        self.changed_ids.insert(key);
    }

    /// Present person of an id, and how it has the id.
    pub fn known(&self, project: i64, distinct_id: &str) -> Option<KnownId> {
        let key = (project, distinct_id.to_owned());
        let known = self.ids.get(&key).copied().flatten()?;
        Some(KnownId {
            person: self.merged_into(project, known.person),
            ..known
        })
    }

    /// Present person of an id.
    pub fn person_of(&self, project: i64, distinct_id: &str) -> Option<Uuid> {
        Some(self.known(project, distinct_id)?.person)
    }

    /// Key of the record that takes an id's properties: its person's, or the id's own if the id may
    /// still move to another person.
    pub fn record_of(&self, project: i64, distinct_id: &str) -> Option<Uuid> {
        let known = self.known(project, distinct_id)?;
        Some(match known.identified {
            Some(_) => person_id(ProjectId(project), distinct_id),
            None => known.person,
        })
    }

    /// Person that a person was merged into; itself, if into none.
    pub fn merged_into(&self, project: i64, person: Uuid) -> Uuid {
        let mut person = person;
        while let Some(next) = self.moved.get(&(project, person)) {
            person = *next;
        }
        person
    }
}
