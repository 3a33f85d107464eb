//! The user's mapping: a small file that says how events of a source become events here.
//!
//! It comes after the source's own mapping, is the same for the dry run and the import, and never changes an event's uuid.
//! The steps are in the order of [`Rules`]' fields.
//!
//! | Module | Holds |
//! |---|---|
//! | `apply` | one event through the rules |
//! | `cast` | values into other types |
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

/// What a mapping file says, but for the table `source`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rules {
    /// Names of events.
    pub events: EventRules,
    /// Properties of events.
    pub properties: PropertyRules,
    /// Properties of persons.
    pub persons: PersonRules,
    /// Times of events.
    pub time: TimeRules,
}

/// What becomes of events by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventRules {
    /// Leaves all others out, unless it is empty. Names may end with `*`.
    pub keep: Vec<String>,
    /// Leaves these out. Names may end with `*`.
    pub drop: Vec<String>,
    /// New names by old ones.
    pub rename: BTreeMap<String, String>,
}

/// What becomes of properties.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PropertyRules {
    /// Leaves these out. Names may end with `*`.
    pub drop: Vec<String>,
    /// New names by old ones.
    pub rename: BTreeMap<String, String>,
    /// Types by (new) names.
    pub cast: BTreeMap<String, Cast>,
    /// Values that every event gets, in place of its own.
    pub set: BTreeMap<String, Value>,
}

/// Properties of persons by the (new) names of the event properties that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PersonRules {
    /// Those that replace what a person has, into `$set`.
    pub set: BTreeMap<String, String>,
    /// Those that do not, into `$set_once`.
    pub set_once: BTreeMap<String, String>,
}

/// Which times are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimeRules {
    /// The earliest.
    #[serde(deserialize_with = "instant")]
    pub earliest: Option<Micros>,
    /// The latest.
    #[serde(deserialize_with = "instant")]
    pub latest: Option<Micros>,
    /// What becomes of events outside.
    pub outside: Outside,
}

/// What becomes of an event whose time is out of bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outside {
    /// It is a reject.
    #[default]
    Reject,
    /// It is left out.
    Drop,
    /// It gets the bound as its time.
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
        serde::de::Error::custom(format!("{text} is no time; write 2026-01-31T00:00:00Z"))
    })
}

impl Rules {
    /// Whether they change nothing, so that events pass as they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Whether a name is one of these, or begins as one that ends with `*`.
fn is_one_of(name: &str, patterns: &[String]) -> bool {
    patterns
        .iter()
        .any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        })
}
