//! The user's mapping rules: a small file that changes events before they are sent.
//!
//! The rules apply after the source's own mapping, are the same for the dry run and the import,
//! and never change an event's uuid. They apply in the order of [`Rules`]' fields.
//!
//! | Module | Holds |
//! |---|---|
//! | `apply` | application of the rules to one event |
//! | `cast` | casts of values to other types |
//! | `object` | JSON objects whose values stay text |

mod apply;
mod cast;
mod object;

pub use apply::{Applied, Applier};
pub use cast::Cast;

use millrace_parse::parse_timestamp;
use millrace_rows::Micros;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// Rules of a mapping file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Rules for names of events.
    pub events: EventRules,
    /// Rules for properties of events.
    pub properties: PropertyRules,
    /// Rules for properties of persons.
    pub persons: PersonRules,
    /// Rules for times of events.
    pub time: TimeRules,
}

/// Rules for events by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventRules {
    /// Names of the only events to keep, unless empty. Names may end with `*`.
    pub keep: Vec<String>,
    /// Names of events to drop. Names may end with `*`.
    pub drop: Vec<String>,
    /// New names by old ones.
    pub rename: BTreeMap<String, String>,
}

/// Rules for properties.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PropertyRules {
    /// Names of properties to drop. Names may end with `*`.
    pub drop: Vec<String>,
    /// New names by old ones.
    pub rename: BTreeMap<String, String>,
    /// Types by (new) names.
    pub cast: BTreeMap<String, Cast>,
    /// Values to set in every event, in place of its own.
    pub set: BTreeMap<String, Value>,
}

/// Properties of persons by the (new) names of the event properties that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PersonRules {
    /// Properties that replace those of the person, written to `$set`.
    pub set: BTreeMap<String, String>,
    /// Properties that do not replace those of the person, written to `$set_once`.
    pub set_once: BTreeMap<String, String>,
}

/// Bounds on times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeRules {
    /// Earliest time.
    #[serde(deserialize_with = "instant")]
    pub earliest: Option<Micros>,
    /// Latest time.
    #[serde(deserialize_with = "instant")]
    pub latest: Option<Micros>,
    /// Treatment of events outside the bounds.
    pub outside: OutOfBounds,
}

/// Treatment of an event whose time is out of bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutOfBounds {
    /// The record becomes a reject.
    #[default]
    Reject,
    /// The event is dropped.
    Drop,
    /// The event gets the bound as its time.
    Clamp,
}

fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Micros>, D::Error> {
    let text = toml::Value::deserialize(deserializer)?;
    let text = match text {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let found = parse_timestamp(text.as_bytes());
    found.map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("{text} is not a time; write 2026-01-31T00:00:00Z"))
    })
}

impl Rules {
    /// Returns true if the rules change nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns true if a name matches one of the patterns, which may end with `*`.
fn is_one_of(name: &str, patterns: &[String]) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        })
}
