//! What one event says of a person or a group, and where it stands among all.

use millrace_rows::{Micros, TeamId, UpdateKind};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// A row of `person_updates`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonUpdate {
    /// Whose it is.
    pub team_id: TeamId,
    /// Its place among all.
    pub place: UpdatePlace,
    /// The event's.
    pub uuid: Uuid,
    /// When the event happened.
    pub timestamp: Micros,
    /// What is to be done beside writing properties.
    pub kind: UpdateKind,
    /// Who the event is of; empty if it says nothing of a person.
    pub distinct_id: String,
    /// The other id of a merge; empty, or its own, where an `$identify` only names its user.
    pub other_id: String,
    /// `$set`: a JSON object, or empty.
    pub person_set: String,
    /// `$set_once`: a JSON object, or empty.
    pub person_set_once: String,
    /// `$unset`: a JSON array of strings, a JSON object whose keys count, or empty.
    pub person_unset: String,
    /// The type of the group that is described; empty if none is.
    pub group_type: String,
    /// Its key.
    pub group_key: String,
    /// `$group_set`: a JSON object, or empty.
    pub group_set: String,
}

/// The order in which updates are applied: that of their arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdatePlace {
    /// When it arrived.
    pub created_at: Micros,
    /// In which request.
    pub request_id: Uuid,
    /// At which place of it; -1 is before the first.
    pub index: i64,
}

impl PersonUpdate {
    /// Bytes of all that it says.
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

    /// Whether it names another id beside its own.
    pub(super) fn has_other_id(&self) -> bool {
        !self.other_id.is_empty() && self.other_id != self.distinct_id
    }

    /// What it writes to its person.
    pub(super) fn person_writes(&self) -> Writes {
        Writes {
            set: Members::of(&self.person_set),
            set_once: Members::of(&self.person_set_once),
            unset: keys(&self.person_unset),
        }
    }

    /// What it writes to its group.
    pub(super) fn group_writes(&self) -> Writes {
        Writes {
            set: Members::of(&self.group_set),
            ..Writes::default()
        }
    }
}

/// Properties that an event writes, each key once in each.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub set: Members,
    pub set_once: Members,
    pub unset: Vec<String>,
}

/// The members of an object; of several with one name the last one.
#[derive(Debug, Default)]
pub(super) struct Members(pub BTreeMap<String, Box<RawValue>>);

impl Members {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        // What the parser let through is an object.
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
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
        Ok(Members(members))
    }
}

/// A name, unless half of a surrogate pair is in it: nothing can be called so.
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

/// The keys of an array of strings or of an object.
fn keys(text: &str) -> Vec<String> {
    if text.starts_with('[') {
        let names: Vec<Key> = serde_json::from_str(text).unwrap_or_default();
        return names.into_iter().filter_map(|Key(name)| name).collect();
    }
    Members::of(text).0.into_keys().collect()
}
