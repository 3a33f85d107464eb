//! Wire type of levels.

use millrace_catalog::Level;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

/// A level by its number: 1 member, 8 administrator, 15 owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelNumber(pub(crate) Level);

impl From<Level> for LevelNumber {
    fn from(level: Level) -> Self {
        Self(level)
    }
}

impl Serialize for LevelNumber {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i16(self.0.number())
    }
}

impl<'de> Deserialize<'de> for LevelNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a float, because the schema takes 8.0 for the integer that it is.
        let number = f64::deserialize(deserializer)?;
        let level = (number.fract() == 0.0).then(|| Level::of(number as i64));
        let level = level.flatten().map(Self);
        level.ok_or_else(|| de::Error::custom("not 1, 8 or 15"))
    }
}

impl JsonSchema for LevelNumber {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "enum": [1, 8, 15],
            "description": "1 member, 8 administrator, 15 owner.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_written_and_read_as_their_numbers() {
        for level in [Level::Member, Level::Administrator, Level::Owner] {
            let written = serde_json::to_value(LevelNumber(level)).unwrap();
            assert_eq!(written, level.number());
            assert_eq!(
                serde_json::from_value::<LevelNumber>(written).unwrap().0,
                level
            );
        }
        assert_eq!(
            serde_json::from_str::<LevelNumber>("8.0").unwrap().0,
            Level::Administrator
        );
        for wrong in ["2", "0", "-1", "16", "\"8\"", "null", "true", "8.5"] {
            assert!(
                serde_json::from_str::<LevelNumber>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
