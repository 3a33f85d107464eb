//! Model of persons and groups: the result of updates, as plainly as possible.

use millrace_persons::PersonUpdate;
use millrace_rows::{UpdateKind, person_id};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

type Stamp = (i64, Uuid);

#[derive(Clone, Debug, Default)]
struct Properties {
    /// Key, time and value of each write; `None` is `$unset`.
    writes: Vec<(String, Stamp, Option<Value>)>,
    onces: Vec<(String, Stamp, Value)>,
}

#[derive(Clone, Debug)]
pub struct Person {
    pub id: Uuid,
    pub project: i64,
    pub ids: BTreeSet<String>,
    pub is_identified: bool,
    own: Record,
}

/// Time of the first event, and the properties that events wrote.
#[derive(Clone, Debug, Default)]
struct Record {
    created_at: Option<i64>,
    properties: Properties,
}

/// `$identify` that gave an id to its person, and the properties of the id's own events.
#[derive(Clone, Debug)]
struct Identified {
    stamp: Stamp,
    own: Record,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub persons: Vec<Person>,
    /// Ids that a person may have to be merged into another one.
    pub merged_ids_max: Option<u64>,
    /// Ids that may move to the user who identified them earlier.
    identified: BTreeMap<(i64, String), Identified>,
    groups: BTreeMap<(i64, String, String), (i64, Properties)>,
    types: BTreeMap<i64, BTreeSet<String>>,
}

impl Properties {
    fn value(&self, key: &str) -> Option<Value> {
        let writes = self.writes.iter().filter(|(of, ..)| of == key);
        // Of two writes of one event the first, which is that of the person that stays.
        let newest = writes.rev().max_by_key(|(_, stamp, _)| *stamp);
        if let Some((.., Some(value))) = newest {
            return Some(value.clone());
        }
        let after = newest.map(|(_, stamp, _)| *stamp);
        let onces = self
            .onces
            .iter()
            .filter(|(of, at, _)| of == key && Some(*at) > after);
        let oldest = onces.min_by_key(|(_, stamp, _)| *stamp);
        oldest.map(|(.., value)| value.clone())
    }

    fn write(&mut self, stamp: Stamp, set: &str, set_once: &str, unset: &str) {
        let parse =
            |text: &str| -> Map<String, Value> { serde_json::from_str(text).unwrap_or_default() };
        let unset: Vec<String> = serde_json::from_str(unset).unwrap_or_default();
        let (set, set_once) = (parse(set), parse(set_once));
        // A key that is set and unset at once is gone if it was there, else set.
        let gone = |key: &String| unset.contains(key) && self.value(key).is_some();
        let mut writes: Vec<_> = set
            .iter()
            .filter(|(key, _)| !gone(key))
            .map(|(key, value)| (key.clone(), Some(value.clone())))
            .collect();
        let unset = unset
            .iter()
            .filter(|key| gone(key) || !set.contains_key(*key));
        writes.extend(unset.map(|key| (key.clone(), None)));
        for (key, value) in writes {
            if !self
                .writes
                .iter()
                .any(|(of, at, _)| (of, at) == (&key, &stamp))
            {
                self.writes.push((key, stamp, value));
            }
        }
        for (key, value) in set_once {
            self.onces.push((key, stamp, value));
        }
    }

    fn json(&self) -> Value {
        let keys = self.writes.iter().map(|(key, ..)| key);
        let keys: BTreeSet<&String> = keys.chain(self.onces.iter().map(|(key, ..)| key)).collect();
        let values = keys
            .into_iter()
            .filter_map(|key| Some((key.clone(), self.value(key)?)));
        Value::Object(values.collect())
    }
}

impl Record {
    fn merge(&mut self, other: Self) {
        let times = [self.created_at, other.created_at];
        self.created_at = times.into_iter().flatten().min();
        self.properties.writes.extend(other.properties.writes);
        self.properties.onces.extend(other.properties.onces);
    }
}

impl Model {
    pub fn apply(&mut self, update: &PersonUpdate) {
        let (project, at) = (update.project_id.0, update.timestamp.0);
        let stamp = (at, update.uuid);
        if !update.group_type.is_empty() {
            let types = self.types.entry(project).or_default();
            if types.len() < 5 || types.contains(&update.group_type) {
                types.insert(update.group_type.clone());
                let key = (project, update.group_type.clone(), update.group_key.clone());
                let group = self
                    .groups
                    .entry(key)
                    .or_insert((at, Properties::default()));
                group.0 = group.0.min(at);
                group.1.write(stamp, &update.group_set, "", "");
            }
        }
        if update.distinct_id.is_empty() {
            return;
        }
        let index = self.person_for(update);
        self.persons[index].is_identified |= update.kind != UpdateKind::Properties;
        let record = match self
            .identified
            .get_mut(&(project, update.distinct_id.clone()))
        {
            Some(first) => &mut first.own,
            None => &mut self.persons[index].own,
        };
        record.created_at = Some(record.created_at.unwrap_or(at).min(at));
        let (set, once) = (&update.person_set, &update.person_set_once);
        record
            .properties
            .write(stamp, set, once, &update.person_unset);
    }

    fn find(&self, project: i64, id: &str) -> Option<usize> {
        let has = |person: &Person| person.project == project && person.ids.contains(id);
        self.persons.iter().position(has)
    }

    fn add(&mut self, update: &PersonUpdate) -> usize {
        self.persons.push(Person {
            id: person_id(update.project_id, &update.distinct_id),
            project: update.project_id.0,
            ids: BTreeSet::from([update.distinct_id.clone()]),
            is_identified: false,
            own: Record {
                created_at: Some(update.timestamp.0),
                ..Record::default()
            },
        });
        self.persons.len() - 1
    }

    fn person_for(&mut self, update: &PersonUpdate) -> usize {
        let project = update.project_id.0;
        let own = self.find(project, &update.distinct_id);
        match update.kind {
            UpdateKind::Properties => own.unwrap_or_else(|| self.add(update)),
            UpdateKind::Identify => {
                let index = match own {
                    Some(holder) => self.user(holder, update),
                    None => self.add(update),
                };
                self.identify(index, update)
            }
            UpdateKind::Alias | UpdateKind::Merge => self.merge(own, update),
        }
    }

    /// Makes an id its user's own, also if it was taken for a device.
    fn user(&mut self, holder: usize, update: &PersonUpdate) -> usize {
        let key = (update.project_id.0, update.distinct_id.clone());
        let Some(first) = self.identified.remove(&key) else {
            return holder;
        };
        self.persons[holder].ids.remove(&key.1);
        let index = self.add(update);
        self.persons[index].own = first.own;
        index
    }

    /// Gives an id to the user who identified it first, if it is no user's.
    fn identify(&mut self, index: usize, update: &PersonUpdate) -> usize {
        if ["", &update.distinct_id].contains(&update.other_id.as_str()) {
            return index;
        }
        let key = (update.project_id.0, update.other_id.clone());
        let stamp = (update.timestamp.0, update.uuid);
        let holder = self.find(key.0, &key.1);
        let user = self.persons[index].id;
        if let (Some(holder), Some(first)) = (holder, self.identified.get_mut(&key)) {
            if stamp < first.stamp {
                first.stamp = stamp;
                self.persons[holder].ids.remove(&key.1);
                self.persons[index].ids.insert(key.1);
            }
            return index;
        }
        let mut own = Record::default();
        if let Some(holder) = holder {
            if holder == index || self.persons[holder].is_identified {
                return index;
            }
            own = self.persons.remove(holder).own;
        }
        self.identified
            .insert(key.clone(), Identified { stamp, own });
        let index = self.persons.iter().position(|it| it.id == user).unwrap();
        self.persons[index].ids.insert(key.1);
        index
    }

    /// Joins two persons for good, in the order of arrival.
    fn merge(&mut self, own: Option<usize>, update: &PersonUpdate) -> usize {
        let other = self.find(update.project_id.0, &update.other_id);
        let index = own.or(other).unwrap_or_else(|| self.add(update));
        self.persons[index].ids.insert(update.distinct_id.clone());
        let Some(other) = other.filter(|other| *other != index) else {
            self.persons[index].ids.insert(update.other_id.clone());
            self.keep(index, update);
            return index;
        };
        if self.persons[other].is_identified && update.kind != UpdateKind::Merge {
            return index;
        }
        let ids = self.persons[other].ids.len() as u64;
        if self.merged_ids_max.is_some_and(|max| ids > max) {
            return index;
        }
        let part = self.persons[other].clone();
        let whole = &mut self.persons[index];
        whole.ids.extend(part.ids);
        whole.is_identified |= part.is_identified;
        whole.own.merge(part.own);
        self.persons.remove(other);
        let index = index - usize::from(other < index);
        self.keep(index, update);
        index
    }

    /// Makes both ids of a merge the person's for good, with their own properties.
    fn keep(&mut self, index: usize, update: &PersonUpdate) {
        for id in [&update.distinct_id, &update.other_id] {
            let first = self.identified.remove(&(update.project_id.0, id.clone()));
            if let Some(first) = first {
                self.persons[index].own.merge(first.own);
            }
        }
    }

    /// Ids with their persons: id, whether it is named, time of creation, properties.
    pub fn ids(&self) -> BTreeMap<(i64, String), (Uuid, bool, i64, Value)> {
        let mut ids = BTreeMap::new();
        for person in &self.persons {
            let mut record = person.own.clone();
            for id in &person.ids {
                let first = self.identified.get(&(person.project, id.clone()));
                record.merge(first.map(|first| first.own.clone()).unwrap_or_default());
            }
            let created_at = record.created_at.unwrap();
            for id in &person.ids {
                let shown = record.properties.json();
                let seen = (person.id, person.is_identified, created_at, shown);
                ids.insert((person.project, id.clone()), seen);
            }
        }
        ids
    }

    /// Groups: time of creation, properties.
    pub fn groups(&self) -> BTreeMap<(i64, String, String), (i64, Value)> {
        let seen = |group: &(i64, Properties)| (group.0, group.1.json());
        self.groups
            .iter()
            .map(|(key, group)| (key.clone(), seen(group)))
            .collect()
    }
}
