//! Field type that tells an absent field from a null one.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;

/// A field that a request may leave out. `Patch<T>` refuses null, `Patch<Option<T>>` takes it as
/// a value, so that "leave it" and "make it null" are distinct.
///
/// Structs of such fields carry `#[serde(default)]`, which makes all of them optional. The type is
/// not `Serialize`, so that no schema names a default for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// Not sent: the field keeps its value.
    #[default]
    Absent,
    /// Sent with this value.
    Value(T),
}

impl<T> Patch<T> {
    /// Value that was sent, if any.
    #[must_use]
    pub fn sent(self) -> Option<T> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(value),
        }
    }

    /// Reference to the value that was sent, if any.
    #[must_use]
    pub fn as_sent(&self) -> Option<&T> {
        match self {
            Self::Absent => None,
            Self::Value(value) => Some(value),
        }
    }

    /// Converts the value that was sent, if any.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Patch<U> {
        match self {
            Self::Absent => Patch::Absent,
            Self::Value(value) => Patch::Value(convert(value)),
        }
    }

    /// Writes the value that was sent, if any, to a field.
    pub fn apply_to(self, field: &mut T) {
        if let Self::Value(value) = self {
            *field = value;
        }
    }

    /// Validates the value that was sent, if any.
    ///
    /// # Errors
    ///
    /// That of `check`.
    pub fn checked<E>(self, check: impl FnOnce(T) -> Result<T, E>) -> Result<Self, E> {
        match self {
            Self::Absent => Ok(Self::Absent),
            Self::Value(value) => check(value).map(Self::Value),
        }
    }
}

/// `None` is a field that was not sent.
impl<T> From<Option<T>> for Patch<T> {
    fn from(sent: Option<T>) -> Self {
        sent.map_or(Self::Absent, Self::Value)
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
    fn only_a_sent_value_is_checked_and_written() {
        let short = |text: String| match text.len() {
            0..=4 => Ok(text.to_uppercase()),
            _ => Err("too long"),
        };
        let table = [
            (None, Ok("was")),
            (Some("new"), Ok("NEW")),
            (Some("too new"), Err("too long")),
        ];
        for (sent, expected) in table {
            let sent = Patch::from(sent.map(str::to_owned));
            let written = sent.checked(short).map(|sent| {
                let mut field = "was".to_owned();
                sent.apply_to(&mut field);
                field
            });
            assert_eq!(written.as_deref().map_err(|error| *error), expected);
        }
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
