//! Last-writer-wins registers: properties that remember when they were written, so that events may
//! arrive in any order.
//!
//! The register of a key keeps two writes: the newest `$set` or `$unset` (an `$unset` leaves a
//! tombstone), and the oldest `$set_once` that is newer than it. The key's value is that of the
//! `$set`; without a `$set`, or after an `$unset`, it is that of the `$set_once`. Writes are
//! ordered by the time of their event, then by its uuid, so that an event that is sent again
//! changes nothing.
//!
//! Limitation: a `$set_once` is dropped if an older one is kept. If an `$unset` from between the
//! two arrives later, it removes the older one, and the key has no value.

mod encoding;
mod json_value;

use millrace_rows::PROPERTY_BYTES_BESIDE;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use uuid::Uuid;

/// Time of a write, and the event that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    /// Microseconds since 1970.
    pub at: i64,
    /// Uuid of the event.
    pub by: Uuid,
}

/// Registers of all keys of one person or group.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers(BTreeMap<String, Register>);

#[derive(Clone, Debug, Default)]
struct Register {
    write: Option<Write>,
    /// Oldest `$set_once` that is newer than `write`.
    once: Option<Write>,
}

#[derive(Clone, Debug)]
struct Write {
    at: i64,
    by: Uuid,
    /// JSON text, which may be `null`; `None` is a tombstone.
    value: Option<Box<RawValue>>,
}

impl Write {
    fn new(stamp: Stamp, value: Option<&RawValue>) -> Self {
        Self {
            at: stamp.at,
            by: stamp.by,
            value: value.map(ToOwned::to_owned),
        }
    }

    const fn stamp(&self) -> Stamp {
        Stamp {
            at: self.at,
            by: self.by,
        }
    }
}

impl Register {
    fn value(&self) -> Option<&RawValue> {
        let written = self.write.as_ref().and_then(|write| write.value.as_ref());
        let either = written.or_else(|| self.once.as_ref()?.value.as_ref());
        either.map(AsRef::as_ref)
    }

    /// Takes a write if it is the newest.
    fn put(&mut self, write: Write) -> bool {
        let stamp = write.stamp();
        if self.write.as_ref().is_some_and(|it| it.stamp() >= stamp) {
            return false;
        }
        self.write = Some(write);
        if self.once.as_ref().is_some_and(|it| it.stamp() <= stamp) {
            self.once = None;
        }
        true
    }

    /// Takes a `$set_once` if nothing is newer and no other `$set_once` is older.
    fn put_once(&mut self, once: Write) -> bool {
        let stamp = once.stamp();
        let is_passed_over = self.write.as_ref().is_some_and(|it| it.stamp() >= stamp)
            || self.once.as_ref().is_some_and(|it| it.stamp() <= stamp);
        if is_passed_over {
            return false;
        }
        self.once = Some(once);
        true
    }

    fn bytes(&self) -> usize {
        let of = |write: &Option<Write>| match write {
            Some(Write { value, .. }) => {
                PROPERTY_BYTES_BESIDE + value.as_ref().map_or(0, |it| it.get().len())
            }
            None => 0,
        };
        of(&self.write) + of(&self.once)
    }
}

impl Registers {
    /// Renders the properties as one JSON object, which ClickHouse's functions can read.
    pub fn to_json(&self) -> String {
        let mut json = String::from("{");
        for (key, register) in &self.0 {
            if let Some(value) = register.value() {
                if json.len() > 1 {
                    json.push(',');
                }
                json.push_str(&serde_json::to_string(key).unwrap_or_default());
                json.push(':');
                json_value::push_readable(value, &mut json);
            }
        }
        json.push('}');
        json
    }

    /// Approximate upper bound of the stored text's length in bytes: each key is counted as if a
    /// different event had written it.
    pub fn bytes(&self) -> usize {
        self.sizes().map(|(_, bytes)| bytes).sum()
    }

    /// Keys, each with its part of [`Self::bytes`].
    pub fn sizes(&self) -> impl Iterator<Item = (&str, usize)> {
        let keys = self.0.iter();
        keys.map(|(key, register)| (key.as_str(), key.len() + register.bytes()))
    }

    /// Growth of [`Self::bytes`] if `key` gets a value of `value_bytes` bytes; approximate.
    pub fn growth(&self, key: &str, value_bytes: usize) -> usize {
        match self.0.get(key) {
            Some(register) => {
                (PROPERTY_BYTES_BESIDE + value_bytes).saturating_sub(register.bytes())
            }
            None => key.len() + PROPERTY_BYTES_BESIDE + value_bytes,
        }
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|it| it.value().is_some())
    }

    /// Applies a `$set`. Returns true if it changed anything.
    pub fn set(&mut self, key: &str, stamp: Stamp, value: &RawValue) -> bool {
        self.register(key).put(Write::new(stamp, Some(value)))
    }

    /// Applies an `$unset`. Returns true if it changed anything.
    pub fn unset(&mut self, key: &str, stamp: Stamp) -> bool {
        self.register(key).put(Write::new(stamp, None))
    }

    /// Applies a `$set_once`. Returns true if it changed anything.
    pub fn set_once(&mut self, key: &str, stamp: Stamp, value: &RawValue) -> bool {
        self.register(key).put_once(Write::new(stamp, Some(value)))
    }

    /// Merges the registers of another person or group, as if all writes had been made here.
    pub fn merge(&mut self, other: Self) {
        for (key, register) in other.0 {
            match self.0.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(register);
                }
                Entry::Occupied(mut entry) => {
                    let own = entry.get_mut();
                    register.write.map(|write| own.put(write));
                    register.once.map(|once| own.put_once(once));
                }
            }
        }
    }

    fn register(&mut self, key: &str) -> &mut Register {
        self.0.entry(key.to_owned()).or_default()
    }
}
