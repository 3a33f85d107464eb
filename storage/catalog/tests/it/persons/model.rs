//! What updates make of persons and groups, as plainly as it can be said.

use millrace_catalog::PersonUpdate;
use millrace_rows::{UpdateKind, person_id};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

type Stamp = (i64, Uuid);

#[derive(Clone, Debug, Default)]
struct Properties {
    /// Key, when, and what: `None` is `$unset`.
    writes: Vec<(String, Stamp, Option<Value>)>,
    onces: Vec<(String, Stamp, Value)>,
}

#[derive(Clone, Debug)]
pub struct Person {
    pub id: Uuid,
    pub team: i64,
    pub ids: BTreeSet<String>,
    pub is_identified: bool,
    pub created_at: i64,
    properties: Properties,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub persons: Vec<Person>,
    groups: BTreeMap<(i64, String, String), (i64, Properties)>,
    types: BTreeMap<i64, BTreeSet<String>>,
}

impl Properties {
    fn value(&self, key: &str) -> Option<Value> {
        let writes = self.writes.iter().filter(|(of, ..)| of == key);
        // Of two of one event the first, which is that of the person that stays.
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

impl Model {
    pub fn apply(&mut self, update: &PersonUpdate) {
        let (team, at) = (update.team_id.0, update.timestamp.0);
        let stamp = (at, update.uuid);
        if !update.group_type.is_empty() {
            let types = self.types.entry(team).or_default();
            if types.len() < 5 || types.contains(&update.group_type) {
                types.insert(update.group_type.clone());
                let key = (team, update.group_type.clone(), update.group_key.clone());
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
        let at_place = self.person_for(update);
        let person = &mut self.persons[at_place];
        person.is_identified |= update.kind != UpdateKind::Properties;
        person.created_at = person.created_at.min(at);
        let (set, once) = (&update.person_set, &update.person_set_once);
        person
            .properties
            .write(stamp, set, once, &update.person_unset);
    }

    fn person_for(&mut self, update: &PersonUpdate) -> usize {
        let team = update.team_id.0;
        let find = |model: &Self, id: &String| {
            let has = |person: &Person| person.team == team && person.ids.contains(id);
            model.persons.iter().position(has)
        };
        let own = find(self, &update.distinct_id);
        let is_merge = update.kind != UpdateKind::Properties;
        let other = if is_merge {
            find(self, &update.other_id)
        } else {
            None
        };
        let place = own.or(other).unwrap_or_else(|| {
            self.persons.push(Person {
                id: person_id(update.team_id, &update.distinct_id),
                team,
                ids: BTreeSet::new(),
                is_identified: false,
                created_at: update.timestamp.0,
                properties: Properties::default(),
            });
            self.persons.len() - 1
        });
        self.persons[place].ids.insert(update.distinct_id.clone());
        if !is_merge || other == Some(place) {
            return place;
        }
        let Some(other) = other else {
            self.persons[place].ids.insert(update.other_id.clone());
            return place;
        };
        if self.persons[other].is_identified && update.kind != UpdateKind::Merge {
            return place;
        }
        let part = self.persons[other].clone();
        let whole = &mut self.persons[place];
        whole.ids.extend(part.ids);
        whole.is_identified |= part.is_identified;
        whole.created_at = whole.created_at.min(part.created_at);
        whole.properties.writes.extend(part.properties.writes);
        whole.properties.onces.extend(part.properties.onces);
        self.persons.remove(other);
        place - usize::from(other < place)
    }

    /// Each id with its person: id, whether it is named, when it was made, its properties.
    pub fn ids(&self) -> BTreeMap<(i64, String), (Uuid, bool, i64, Value)> {
        let mut ids = BTreeMap::new();
        for person in &self.persons {
            for id in &person.ids {
                let shown = person.properties.json();
                let seen = (person.id, person.is_identified, person.created_at, shown);
                ids.insert((person.team, id.clone()), seen);
            }
        }
        ids
    }

    /// Each group: when it was made, its properties.
    pub fn groups(&self) -> BTreeMap<(i64, String, String), (i64, Value)> {
        let seen = |group: &(i64, Properties)| (group.0, group.1.json());
        self.groups
            .iter()
            .map(|(key, group)| (key.clone(), seen(group)))
            .collect()
    }
}
