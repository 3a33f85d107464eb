//! Which distinct ids are one person.
//!
//! `$identify` gives an anonymous id to a user: it is that user's who identified it first, by the
//! time of the events, in whatever order they arrive. So the id only goes over, with the event that
//! took it, and may go over once more when an earlier one arrives; what the id has of its own stays
//! in a record of its own ([`World::record_of`]), which is shown as part of whoever has the id. A
//! user, that is a person that was ever named, becomes nobody's part that way. An `$identify` without
//! an anonymous id, or with its own in its place, names its user and gives nothing away.
//!
//! `$create_alias` and `$merge_dangerously` join persons for good, in the order of their arrival. What
//! they name goes over to nobody any more, also where the person has the id already.

use super::registers::Stamp;
use super::update::PersonUpdate;
use super::world::{Person, PersonKey, Properties, World, stamp};
use crate::entities::person_distinct_ids;
use millrace_rows::{TeamId, UpdateKind, person_id};
use uuid::Uuid;

/// A distinct id that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownId {
    /// Its person.
    pub person: Uuid,
    /// The earliest `$identify` of it; none if the id is its person's own, or was merged for good.
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

impl World {
    /// Makes the anonymous id of an `$identify` the user's, if it has one.
    pub fn identify(&mut self, update: &PersonUpdate) {
        let team = update.team_id.0;
        let user = self.user_of(update);
        if !update.has_other_id() {
            return;
        }
        let given = KnownId {
            person: user,
            identified: Some(stamp(update)),
        };
        let Some(known) = self.known(team, &update.other_id) else {
            self.attach(team, &update.other_id, given);
            return;
        };
        let holder = known.person;
        if known.identified.is_none() {
            self.give_person(update, given, holder);
        } else if given.identified < known.identified {
            self.attach(team, &update.other_id, given);
            self.changed_persons.extend([(team, holder), (team, user)]);
        } else if holder != user {
            self.tally.refused += 1;
        }
    }

    /// The person of the id that an `$identify` names as a user's. If it was given to somebody as a device's, it is a
    /// person of its own from now on, with all that it has of its own: so it would be had it been named before.
    fn user_of(&mut self, update: &PersonUpdate) -> Uuid {
        let (team, id) = (update.team_id.0, update.distinct_id.as_str());
        let Some(known) = self.known(team, id) else {
            return self.make_person(update);
        };
        if known.identified.is_none() {
            return known.person;
        }
        let own = person_id(update.team_id, id);
        let record = self.persons.entry((team, own));
        let record = record.or_insert_with(|| Person::new(update.timestamp.0, true));
        record.is_deleted = false;
        let alone = KnownId {
            person: own,
            identified: None,
        };
        self.attach(team, id, alone);
        self.changed_persons
            .extend([(team, known.person), (team, own)]);
        self.tally.refused += 1;
        own
    }

    /// Gives an anonymous person to a user, unless it is one itself.
    fn give_person(&mut self, update: &PersonUpdate, given: KnownId, holder: Uuid) {
        let team = update.team_id.0;
        if holder == given.person {
            return;
        }
        match self.persons.get_mut(&(team, holder)) {
            Some(person) if !person.is_identified => person.is_deleted = true,
            _ => {
                self.tally.refused += 1;
                return;
            }
        }
        self.tally.merged += 1;
        self.attach(team, &update.other_id, given);
        self.changed_persons
            .extend([(team, holder), (team, given.person)]);
    }

    /// Makes two ids one person's for good, if that may be.
    pub fn merge(&mut self, update: &PersonUpdate) {
        let team = update.team_id.0;
        if update.other_id.is_empty() {
            // It may not become known.
            self.keep(team, &update.distinct_id);
            return;
        }
        let own = self.person_of(team, &update.distinct_id);
        let other = self.person_of(team, &update.other_id);
        let known = |person| KnownId {
            person,
            identified: None,
        };
        match (own, other) {
            (None, None) => {
                let id = self.make_person(update);
                self.attach(team, &update.other_id, known(id));
            }
            (Some(own), None) => self.attach(team, &update.other_id, known(own)),
            (None, Some(other)) => self.attach(team, &update.distinct_id, known(other)),
            (Some(own), Some(other)) => {
                if own != other && !self.join(team, own, other, update.kind) {
                    return;
                }
            }
        }
        for id in [&update.distinct_id, &update.other_id] {
            self.keep(team, id);
        }
    }

    /// The person that an update would make part of another one.
    pub fn part_by(&self, update: &PersonUpdate) -> Option<PersonKey> {
        let team = update.team_id.0;
        if !matches!(update.kind, UpdateKind::Alias | UpdateKind::Merge) {
            return None;
        }
        let own = self.person_of(team, &update.distinct_id)?;
        let other = self.person_of(team, &update.other_id)?;
        let part = self.persons.get(&(team, other))?;
        let may_join = !part.is_identified || update.kind == UpdateKind::Merge;
        (own != other && may_join).then_some((team, other))
    }

    /// Leaves an id to its person for good, with what it has of its own.
    fn keep(&mut self, team: i64, id: &str) {
        let Some(KnownId { person, identified }) = self.known(team, id) else {
            return;
        };
        if identified.is_none() {
            return;
        }
        let known = KnownId {
            person,
            identified: None,
        };
        self.attach(team, id, known);
        let record = person_id(TeamId(team), id);
        if record != person {
            self.fold(team, record, person);
        }
    }

    /// Makes one person part of another, if it was never named or the event insists; answers whether.
    fn join(&mut self, team: i64, target: Uuid, source: Uuid, kind: UpdateKind) -> bool {
        let Some(part) = self.persons.get(&(team, source)) else {
            return false;
        };
        if part.is_identified && kind != UpdateKind::Merge {
            self.tally.refused += 1;
            return false;
        }
        if !self.sizes.join((team, source), (team, target)) {
            self.tally.too_many_ids += 1;
            return false;
        }
        self.fold(team, source, target);
        self.tally.merged += 1;
        self.moved.insert((team, source), target);
        true
    }

    /// Gives all that is known of one person, or of an id, to a person.
    fn fold(&mut self, team: i64, source: Uuid, target: Uuid) {
        let Some(part) = self.persons.get_mut(&(team, source)) else {
            return;
        };
        let was = part.clone();
        part.is_deleted = true;
        part.properties = Properties::default();
        if let Some(whole) = self.persons.get_mut(&(team, target)) {
            whole.created_at = whole.created_at.min(was.created_at);
            whole.is_identified |= was.is_identified;
            if !whole.properties.merge(was.properties) {
                self.tally.too_large += 1;
            }
        }
        self.changed_persons
            .extend([(team, source), (team, target)]);
    }

    /// Makes the person of an update's own id.
    pub fn make_person(&mut self, update: &PersonUpdate) -> Uuid {
        let team = update.team_id.0;
        let id = person_id(update.team_id, &update.distinct_id);
        self.persons
            .insert((team, id), Person::new(update.timestamp.0, false));
        self.changed_persons.insert((team, id));
        let known = KnownId {
            person: id,
            identified: None,
        };
        self.attach(team, &update.distinct_id, known);
        id
    }

    fn attach(&mut self, team: i64, distinct_id: &str, known: KnownId) {
        let before = self.person_of(team, distinct_id);
        self.sizes.attach(team, before, known.person);
        let key = (team, distinct_id.to_owned());
        self.ids.insert(key.clone(), Some(known));
        self.changed_ids.insert(key);
    }

    /// What is known of an id at this moment.
    pub fn known(&self, team: i64, distinct_id: &str) -> Option<KnownId> {
        let key = (team, distinct_id.to_owned());
        let known = self.ids.get(&key).copied().flatten()?;
        Some(KnownId {
            person: self.part_of(team, known.person),
            ..known
        })
    }

    /// The person that an id is of at this moment.
    pub fn person_of(&self, team: i64, distinct_id: &str) -> Option<Uuid> {
        Some(self.known(team, distinct_id)?.person)
    }

    /// Where that is kept which events of an id say of its person: with the person, or by itself if
    /// the id may go over to another one.
    pub fn record_of(&self, team: i64, distinct_id: &str) -> Option<Uuid> {
        let known = self.known(team, distinct_id)?;
        Some(match known.identified {
            Some(_) => person_id(TeamId(team), distinct_id),
            None => known.person,
        })
    }

    /// What a person has become part of; itself, if of nobody.
    pub fn part_of(&self, team: i64, person: Uuid) -> Uuid {
        let mut person = person;
        while let Some(next) = self.moved.get(&(team, person)) {
            person = *next;
        }
        person
    }
}
