//! Contents of an entry: the resource and its changed fields.
//!
//! Entries hold no secrets: keys appear as masks, the fields of destinations as names only. Long
//! values are cut to their beginnings.

use super::scope::{Activity, ActivityScope};
use crate::bounded_json::stored;
use sea_orm::FromJsonQueryResult;
use sea_orm::prelude::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// Longest value in an entry, as JSON, in bytes; a list returns up to 1000 entries at once.
const VALUE_BYTES_MAX: usize = 1024;
/// Most bytes of the names and values of all changes in an entry together: a source has up to 200
/// files.
const CHANGES_BYTES_MAX: usize = 32 * 1024;

/// Detail of an entry: the resource's name and its changed fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct ActivityDetail {
    /// Name of the resource at the time of the change.
    pub name: String,
    /// Changed fields.
    pub changes: Vec<ActivityChange>,
}

impl ActivityDetail {
    /// Truncates long values, and a long list of changes.
    pub(super) fn shortened(mut self) -> Self {
        for change in &mut self.changes {
            for value in [&mut change.before, &mut change.after] {
                if let Some(short) = beginning(value) {
                    *value = short.into();
                }
            }
        }
        let mut bytes = 0;
        let fitting = self.changes.iter().take_while(|change| {
            bytes += change.field.len() + change.before.to_string().len();
            bytes += change.after.to_string().len();
            bytes <= CHANGES_BYTES_MAX
        });
        let fitting = fitting.count();
        let rest = self.changes.split_off(fitting);
        if let Some(first) = rest.first() {
            self.changes.push(ActivityChange {
                kind: first.kind.clone(),
                action: "changed".to_owned(),
                field: "…".to_owned(),
                before: Value::Null,
                after: format!("and {} more", rest.len()).into(),
            });
        }
        self
    }
}

/// Beginning of a long value, with its length; `None` for a short one.
fn beginning(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => Cow::from(text),
        other => Cow::from(other.to_string()),
    };
    let bytes = text.len();
    if bytes <= VALUE_BYTES_MAX {
        return None;
    }
    let start = text.get(..text.floor_char_boundary(VALUE_BYTES_MAX))?;
    Some(format!("{start}… ({bytes} bytes)"))
}

/// Changed field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityChange {
    /// Scope of the entry.
    #[serde(rename = "type")]
    pub kind: String,
    /// `created`, `changed` or `deleted`.
    pub action: String,
    /// Name of the field in the API.
    pub field: String,
    /// Value before the change: null if it was not set, the beginning of a long one, as text.
    #[serde(deserialize_with = "stored")]
    pub before: Value,
    /// Value after the change: null if it is not set any more, otherwise like `before`.
    #[serde(deserialize_with = "stored")]
    pub after: Value,
}

/// Audit entry that is about to be written.
#[derive(Clone, Debug)]
pub struct AuditChange {
    pub(super) organization_id: Option<Uuid>,
    pub(super) scope: ActivityScope,
    pub(super) item_id: String,
    pub(super) activity: Activity,
    pub(super) detail: ActivityDetail,
}

impl AuditChange {
    /// Starts an entry without changed fields. `item_id` is the id in the API's paths, `name` is
    /// for people.
    #[must_use]
    pub fn new(
        activity: Activity,
        scope: ActivityScope,
        organization_id: impl Into<Option<Uuid>>,
        item_id: &dyn fmt::Display,
        name: &str,
    ) -> Self {
        Self {
            organization_id: organization_id.into(),
            scope,
            item_id: item_id.to_string(),
            activity,
            detail: ActivityDetail {
                name: name.to_owned(),
                changes: Vec::new(),
            },
        }
    }

    /// Adds a field if its value changed.
    #[must_use]
    pub fn field(mut self, name: &str, before: impl Serialize, after: impl Serialize) -> Self {
        let before = serde_json::to_value(before).unwrap_or_default();
        let after = serde_json::to_value(after).unwrap_or_default();
        if before != after {
            let action = match (before.is_null(), after.is_null()) {
                (true, _) => "created",
                (_, true) => "deleted",
                _ => "changed",
            };
            self.detail.changes.push(ActivityChange {
                kind: self.scope.name(),
                action: action.to_owned(),
                field: name.to_owned(),
                before,
                after,
            });
        }
        self
    }

    /// Returns true if no field changed: then neither row nor entry needs writing.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.detail.changes.is_empty()
    }

    /// Copy of the entry for one of several organizations: lists of organizations are cut to this
    /// one.
    #[must_use]
    pub fn narrowed_to(&self, organization_id: Option<Uuid>) -> Self {
        let mut narrowed = self.clone();
        narrowed.organization_id = organization_id;
        let Some(own) = organization_id.map(|id| Value::from(id.to_string())) else {
            return narrowed;
        };
        for change in &mut narrowed.detail.changes {
            if change.field == "scoped_organizations" {
                for side in [&mut change.before, &mut change.after] {
                    if let Value::Array(ids) = side {
                        ids.retain(|id| *id == own);
                    }
                }
            }
        }
        narrowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_cut_to_their_beginnings() {
        let letters = |letter: &str, count: usize| letter.repeat(count);
        let table = [
            (json!(null), None),
            (json!(true), None),
            (json!(letters("a", 1024)), None),
            (json!([letters("a", 1020)]), None),
            (
                json!(letters("a", 1025)),
                Some(format!("{}… (1025 bytes)", letters("a", 1024))),
            ),
            (
                json!(format!("a{}", letters("ü", 512))),
                Some(format!("a{}… (1025 bytes)", letters("ü", 511))),
            ),
            (
                json!([letters("a", 2000)]),
                Some(format!("[\"{}… (2004 bytes)", letters("a", 1022))),
            ),
        ];
        for (value, expected) in table {
            assert_eq!(beginning(&value), expected);
        }
    }
}
