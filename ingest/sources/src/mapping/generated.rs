//! Generates events that a source only implies: the users of devices, merges of ids, and properties
//! of groups.
//!
//! Each event is a function of its content and of the day or hour, so that it is one row however
//! often it is generated: a row is identified by its uuid, day, name and distinct id, and these
//! depend on nothing else. Recently generated events are not repeated, which saves nearly all.
//!
//! A device belongs to its first user. So that two people may use one on the same day, `$identify`
//! has the time of its record, and is generated again for a record that is earlier than those
//! before: wherever an import is resumed and in whatever order it reads, the earliest time of each
//! user and device is among the generated events.

use crate::Events;
use crate::mapping::stamp;
use millrace_rows::Micros;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use xxhash_rust::xxh3::xxh3_128;

const MICROS_PER_HOUR: i64 = 3_600_000_000;
const MICROS_PER_DAY: i64 = 24 * MICROS_PER_HOUR;
/// Most recent events that are kept before all are dropped: some 16 MiB.
const RECENT_MAX: usize = 450_000;

/// Generates events, and keeps the recent ones to avoid repeats.
pub(crate) struct Generated {
    source: &'static str,
    /// Hash of each recent event, with its time in microseconds.
    recent: HashMap<u128, i64>,
}

impl Generated {
    pub(crate) fn new(source: &'static str) -> Self {
        Self {
            source,
            recent: HashMap::new(),
        }
    }

    /// Generates an `$identify` for a user of a device, for the earliest record of each day.
    ///
    /// Without a device, or with one of the same id, the event only marks the id as a user's, so
    /// that it is not taken for another user's device.
    pub(crate) fn identify(
        &mut self,
        known: &str,
        anonymous: Option<&str>,
        at: Micros,
        events: &mut Events,
    ) {
        let anonymous = anonymous.filter(|anonymous| *anonymous != known);
        let day = floor(at, MICROS_PER_DAY).0.to_be_bytes();
        let key: [&[u8]; 4] = [
            b"$identify",
            known.as_bytes(),
            anonymous.unwrap_or_default().as_bytes(),
            &day,
        ];
        if !self.is_new(&key, at) {
            return;
        }
        let mut event = events.begin("$identify", known, at);
        event.generated().key(&key);
        if let Some(anonymous) = anonymous {
            event.property("$anon_distinct_id", anonymous);
        }
        stamp(&mut event, self.source);
        event.end();
        events.note("generated_identify");
    }

    /// Generates a merge of two ids into one person for good, once for each day.
    pub(crate) fn merge(&mut self, target: &str, alias: &str, at: Micros, events: &mut Events) {
        let day = floor(at, MICROS_PER_DAY);
        let key: [&[u8]; 4] = [
            b"$merge_dangerously",
            target.as_bytes(),
            alias.as_bytes(),
            &day.0.to_be_bytes(),
        ];
        if !self.is_new(&key, day) {
            return;
        }
        let mut event = events.begin("$merge_dangerously", target, day);
        event.generated().key(&key).property("alias", alias);
        stamp(&mut event, self.source);
        event.end();
        events.note("generated_merge");
    }

    /// Generates the properties of a group, once for each hour.
    pub(crate) fn group(
        &mut self,
        group: (&str, &str),
        properties: &RawValue,
        at: Micros,
        events: &mut Events,
    ) {
        let (group_type, group_key) = group;
        let hour = floor(at, MICROS_PER_HOUR);
        let key: [&[u8]; 5] = [
            b"$groupidentify",
            group_type.as_bytes(),
            group_key.as_bytes(),
            properties.get().as_bytes(),
            &hour.0.to_be_bytes(),
        ];
        if !self.is_new(&key, hour) {
            return;
        }
        // The event belongs to no person: the distinct id is the group's, as in our libraries.
        let distinct_id = format!("${group_type}_{group_key}");
        let mut event = events.begin("$groupidentify", &distinct_id, hour);
        event
            .generated()
            .key(&key)
            .property("$group_type", group_type)
            .property("$group_key", group_key)
            .property("$group_set", properties);
        stamp(&mut event, self.source);
        event.end();
        events.note("generated_groupidentify");
    }

    /// Returns true if the event was not generated recently, or only for a later time.
    fn is_new(&mut self, key: &[&[u8]], at: Micros) -> bool {
        let mut text = Vec::new();
        for part in key {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        }
        if self.recent.len() >= RECENT_MAX {
            self.recent.clear();
        }
        match self.recent.entry(xxh3_128(&text)) {
            Entry::Vacant(entry) => {
                entry.insert(at.0);
                true
            }
            Entry::Occupied(mut entry) if at.0 < *entry.get() => {
                entry.insert(at.0);
                true
            }
            Entry::Occupied(_) => false,
        }
    }
}

fn floor(at: Micros, unit_micros: i64) -> Micros {
    Micros(at.0 - at.0.rem_euclid(unit_micros))
}
