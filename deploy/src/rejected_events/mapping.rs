//! Changes of an event before it is sent again: its fields are renamed, then dropped, then set.

use super::fields::{EventFields, FieldPath, Fields};
use serde_json::Value;
use serde_json::value::to_raw_value;

/// Changes of an event.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    /// Fields that are renamed, with their new places; those that an event lacks are left out.
    pub rename: Vec<(FieldPath, FieldPath)>,
    /// Fields that are dropped.
    pub drop: Vec<FieldPath>,
    /// Fields that are set, with their values.
    pub set: Vec<(FieldPath, Value)>,
}

impl Mapping {
    /// Changes the fields of an event.
    ///
    /// # Errors
    /// When a property is changed and the properties are no object.
    pub fn apply(&self, event: Fields) -> anyhow::Result<Fields> {
        let mut event = EventFields::new(event, self.opens_properties())?;
        for (from, to) in &self.rename {
            if let Some(value) = event.take(from)? {
                event.put(to, value)?;
            }
        }
        for path in &self.drop {
            event.take(path)?;
        }
        for (path, value) in &self.set {
            event.put(path, to_raw_value(value)?)?;
        }
        event.finished()
    }

    /// Returns true if any property is changed.
    fn opens_properties(&self) -> bool {
        let renamed = self.rename.iter().flat_map(|(from, to)| [from, to]);
        let set = self.set.iter().map(|(path, _)| path);
        let mut all = renamed.chain(&self.drop).chain(set);
        all.any(FieldPath::is_property)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::parse;
    use super::*;
    use serde_json::json;

    /// Mapping of fields by their names.
    fn mapping(rename: &[(&str, &str)], drop: &[&str], set: &[(&str, Value)]) -> Mapping {
        let path = FieldPath::of;
        Mapping {
            rename: rename
                .iter()
                .map(|(from, to)| (path(from), path(to)))
                .collect(),
            drop: drop.iter().map(|name| path(name)).collect(),
            set: set
                .iter()
                .map(|(name, value)| (path(name), value.clone()))
                .collect(),
        }
    }

    #[test]
    fn fields_are_renamed_dropped_and_set_and_others_stay_as_they_were_sent() {
        let table = [
            (
                mapping(&[("user_id", "distinct_id")], &[], &[]),
                r#"{"user_id":1.50,"properties":{ "a": "\ud800" }}"#,
                r#"{"distinct_id":1.50,"properties":{ "a": "\ud800" }}"#,
            ),
            (
                mapping(&[("properties.id", "distinct_id")], &["x"], &[]),
                r#"{"properties":{"id":"ada","n":1e400},"x":1}"#,
                r#"{"distinct_id":"ada","properties":{"n":1e400}}"#,
            ),
            (
                mapping(&[("absent", "event")], &["properties.a", "absent"], &[]),
                r#"{"event":"e","properties":null}"#,
                r#"{"event":"e","properties":{}}"#,
            ),
            (
                mapping(
                    &[("a", "b")],
                    &["b"],
                    &[("b", json!(1)), ("properties.p", json!({"q": []}))],
                ),
                r#"{"a":0}"#,
                r#"{"b":1,"properties":{"p":{"q":[]}}}"#,
            ),
            (
                mapping(&[("properties", "old")], &[], &[("properties.p", json!(2))]),
                r#"{"properties":{"a":1}}"#,
                r#"{"old":{"a":1},"properties":{"p":2}}"#,
            ),
        ];
        for (mapping, event, expected) in table {
            let changed = mapping.apply(parse(event).unwrap()).unwrap();
            assert_eq!(
                serde_json::to_string(&changed).unwrap(),
                expected,
                "{mapping:?}"
            );
        }
    }

    #[test]
    fn properties_that_are_no_object_are_changed_as_a_whole_only() {
        let event = || parse(r#"{"properties":[1]}"#).unwrap();
        let of_property = mapping(&[], &["properties.a"], &[]);
        assert!(of_property.apply(event()).is_err());
        let of_event = mapping(&[], &["properties"], &[]);
        assert!(of_event.apply(event()).unwrap().is_empty());
        let replaced = mapping(
            &[],
            &[],
            &[("properties.a", json!(1)), ("properties", json!(2))],
        );
        assert!(replaced.apply(Fields::new()).is_err());
    }
}
