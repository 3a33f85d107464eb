//! What an entry says: the thing, and which of its fields changed.
//!
//! Entries hold no secrets: keys appear as masks, the fields of destinations as names only. Nor do
//! they hold long values: of those, they tell how they begin.

use super::{Activity, ActivityScope};
use sea_orm::FromJsonQueryResult;
use sea_orm::prelude::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

/// The longest value in an entry, as JSON, in bytes; lists answer up to 1000 entries at once.
const VALUE_BYTES_MAX: usize = 1024;
/// The longest names and values of all changes in an entry together, in bytes: a source has up to
/// 200 files.
const CHANGES_BYTES_MAX: usize = 32 * 1024;

/// What an entry says of the change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
pub struct ActivityDetail {
    /// What people called the thing then.
    pub name: String,
    /// Which fields changed.
    pub changes: Vec<ActivityChange>,
}

impl ActivityDetail {
    /// The same with the beginnings of long values, and of a long list of changes.
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

/// How a long value begins, with its length; of others nothing.
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

/// One changed field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityChange {
    /// The scope of the entry.
    #[serde(rename = "type")]
    pub kind: String,
    /// `created`, `changed` or `deleted`.
    pub action: String,
    /// Its name in the API.
    pub field: String,
    /// Null if it was not set; the beginning of a long one, as text.
    pub before: Value,
    /// Null if it is not set any more; otherwise as `before`.
    pub after: Value,
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(super) organization_id: Option<Uuid>,
    pub(super) scope: ActivityScope,
    pub(super) item_id: String,
    pub(super) activity: Activity,
    pub(super) detail: ActivityDetail,
}

impl Deed {
    /// `item_id` is the id in the API's paths, `name` what people call the thing.
    pub(crate) fn new(
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

    /// Adds a field if it changed.
    pub(crate) fn field(
        mut self,
        name: &str,
        before: impl Serialize,
        after: impl Serialize,
    ) -> Self {
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

    /// Whether no field changed: then nothing needs writing, neither row nor entry.
    pub(crate) fn changes_nothing(&self) -> bool {
        self.detail.changes.is_empty()
    }

    /// The same deed as one of several organizations sees it: of lists of organizations only
    /// whether it is among them.
    pub(crate) fn seen_by(&self, organization_id: Option<Uuid>) -> Self {
        let mut seen = self.clone();
        seen.organization_id = organization_id;
        let Some(own) = organization_id.map(|id| Value::from(id.to_string())) else {
            return seen;
        };
        for change in &mut seen.detail.changes {
            if change.field == "scoped_organizations" {
                for side in [&mut change.before, &mut change.after] {
                    if let Value::Array(ids) = side {
                        ids.retain(|id| *id == own);
                    }
                }
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_values_are_told_by_their_beginnings() {
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
