//! Field type that tells an absent field from a null one.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// A field that a request may leave out. `Patch<T>` refuses null, `Patch<Option<T>>` takes it as
/// a value, so that "leave it" and "make it null" are distinct.
///
/// Structs of such fields carry `#[serde(default)]`, which makes all of them optional.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Patch<T> {
    /// Not sent: the field keeps its value.
    #[default]
    Absent,
    /// Sent with this value.
    Value(T),
}

impl<T> Patch<T> {
    /// Value that was sent, if any.
    pub(crate) fn sent(self) -> Option<T> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Only fields that were sent get here; the others are `default`.
        T::deserialize(deserializer).map(Self::Value)
    }
}

/// Schema of `T`; the struct around it makes the field optional.
impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Change {
        #[schemars(length(min = 1, max = 4))]
        name: Patch<String>,
        note: Patch<Option<String>>,
    }

    #[test]
    fn absent_null_and_a_value_are_distinct() {
        let read = |text: &str| serde_json::from_str::<Change>(text);
        let nothing = Change::default();
        assert_eq!(read("{}").unwrap(), nothing);
        assert_eq!(read(r#"{"note": null}"#).unwrap().note, Patch::Value(None));
        assert_eq!(
            read(r#"{"note": "a"}"#).unwrap().note.sent(),
            Some(Some("a".to_owned()))
        );
        assert!(read(r#"{"name": null}"#).is_err());
    }

    #[test]
    fn the_schema_has_nullable_fields_and_requires_none() {
        let schema = SchemaGenerator::default().into_root_schema_for::<Change>();
        let schema = schema.to_value();
        assert_eq!(schema["required"], serde_json::Value::Null);
        let name = serde_json::json!({"type": "string", "minLength": 1, "maxLength": 4});
        assert_eq!(schema["properties"]["name"], name);
        let note = serde_json::json!({"type": ["string", "null"]});
        assert_eq!(schema["properties"]["note"], note);
    }
}
