//! Updates of persons and groups, each from one event, and their order.

use millrace_rows::{Micros, PROPERTY_BYTES_BESIDE, ProjectId, UpdateKind};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// Row of `person_updates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonUpdate {
    /// Project of the event.
    pub project_id: ProjectId,
    /// Position among all updates.
    pub position: UpdatePosition,
    /// Uuid of the event.
    pub uuid: Uuid,
    /// Time of the event.
    pub timestamp: Micros,
    /// Operation beside writing properties.
    pub kind: UpdateKind,
    /// Distinct id of the event; empty if it says nothing of a person.
    pub distinct_id: String,
    /// Other id of a merge; empty, or equal to `distinct_id`, where an `$identify` only names its
    /// user.
    pub other_id: String,
    /// `$set`: a JSON object, or empty.
    pub person_set: String,
    /// `$set_once`: a JSON object, or empty.
    pub person_set_once: String,
    /// `$unset`: a JSON array of strings, a JSON object whose keys count, or empty.
    pub person_unset: String,
    /// Type of the group that is described; empty if none is.
    pub group_type: String,
    /// Key of that group.
    pub group_key: String,
    /// `$group_set`: a JSON object, or empty.
    pub group_set: String,
}

/// Position of an update in the order of application, which is that of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdatePosition {
    /// Time of arrival.
    pub created_at: Micros,
    /// Request that brought the event.
    pub request_id: Uuid,
    /// Index of the event in its request; -1 is before the first.
    pub index: i64,
}

impl PersonUpdate {
    /// Bytes of the update's texts.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.distinct_id.len()
            + self.other_id.len()
            + self.person_set.len()
            + self.person_set_once.len()
            + self.person_unset.len()
            + self.group_type.len()
            + self.group_key.len()
            + self.group_set.len()
    }

    /// Returns true if the update names another id beside its own.
    pub(super) fn has_other_id(&self) -> bool {
        !self.other_id.is_empty() && self.other_id != self.distinct_id
    }

    /// Writes to the person's properties.
    pub(super) fn person_writes(&self) -> Writes {
        Writes {
            set: ObjectMembers::of(&self.person_set),
            set_once: ObjectMembers::of(&self.person_set_once),
            unset: keys(&self.person_unset),
        }
    }

    /// Writes to the group's properties.
    pub(super) fn group_writes(&self) -> Writes {
        Writes {
            set: ObjectMembers::of(&self.group_set),
            ..Writes::default()
        }
    }
}

/// Property writes of an event, each key once in each operation.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub set: ObjectMembers,
    pub set_once: ObjectMembers,
    pub unset: Vec<String>,
}

impl Writes {
    /// Names of the properties that are written, each with the bytes that it adds at most.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        let set = self.set.0.iter().chain(&self.set_once.0);
        let set = set.map(|(key, value)| (key.as_str(), value.get().len()));
        let unset = self.unset.iter().map(|key| (key.as_str(), 0));
        set.chain(unset)
            .map(|(key, value_bytes)| (key, key.len() + PROPERTY_BYTES_BESIDE + value_bytes))
    }
}

/// Members of an object; of several with one name the last one.
#[derive(Debug, Default)]
pub(super) struct ObjectMembers(pub BTreeMap<String, Box<RawValue>>);

impl ObjectMembers {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        // Texts that passed the parser are objects.
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for ObjectMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = ObjectMembers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ObjectMembers, A::Error> {
        let mut members = BTreeMap::new();
        while let Some(Key(key)) = map.next_key()? {
            match key {
                Some(key) => {
                    members.insert(key, map.next_value()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(ObjectMembers(members))
    }
}

/// Name of a property; none for a text with half of a surrogate pair, which cannot be a name.
struct Key(Option<String>);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<Key, E> {
        Ok(Key(std::str::from_utf8(name).ok().map(str::to_owned)))
    }
}

/// Parses the keys of an array of strings or of an object.
fn keys(text: &str) -> Vec<String> {
    if text.starts_with('[') {
        let names: Vec<Key> = serde_json::from_str(text).unwrap_or_default();
        return names.into_iter().filter_map(|Key(name)| name).collect();
    }
    ObjectMembers::of(text).0.into_keys().collect()
}
