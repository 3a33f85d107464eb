//! Roles: named groups of an organization's members.

use crate::UtcTime;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;

/// Role.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "roles")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization of the role.
    pub organization_id: Uuid,
    /// Name, at most 200 characters.
    pub name: String,
    /// Name in lower case, unique in the organization.
    pub name_key: String,
    /// Access to feature flags that front ends give its members.
    pub feature_flags_access_level: FlagsAccess,
    /// User who created it; null: the operator, or a user who is gone.
    pub created_by_id: Option<i64>,
    /// Time of creation.
    pub created_at: UtcTime,
}

/// Access of a role's members to feature flags; on the wire by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "i16", db_type = "SmallInteger")]
pub enum FlagsAccess {
    /// They may see flags.
    View = 21,
    /// They may change flags.
    Edit = 37,
}

impl FlagsAccess {
    /// Access of a number; `None` if there is none.
    #[must_use]
    pub const fn of(number: i64) -> Option<Self> {
        match number {
            21 => Some(Self::View),
            37 => Some(Self::Edit),
            _ => None,
        }
    }

    /// Number that the API and the tables use.
    #[must_use]
    pub const fn number(self) -> i16 {
        self as i16
    }
}

impl Serialize for FlagsAccess {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i16(self.number())
    }
}

impl<'de> Deserialize<'de> for FlagsAccess {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a float, because the schema takes 37.0 for the integer that it is.
        let number = f64::deserialize(deserializer)?;
        let access = (number.fract() == 0.0).then(|| Self::of(number as i64));
        let access = access.flatten();
        access.ok_or_else(|| de::Error::custom("not 21 or 37"))
    }
}

impl JsonSchema for FlagsAccess {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FlagsAccess".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "integer",
            "enum": [21, 37],
            "description": "21 see feature flags, 37 change them.",
        })
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_written_and_read_as_its_number() {
        for access in [FlagsAccess::View, FlagsAccess::Edit] {
            let written = serde_json::to_value(access).unwrap();
            assert_eq!(written, access.number());
            let read: FlagsAccess = serde_json::from_value(written).unwrap();
            assert_eq!(read, access);
        }
        let whole: FlagsAccess = serde_json::from_str("37.0").unwrap();
        assert_eq!(whole, FlagsAccess::Edit);
        for wrong in ["0", "22", "-21", "\"37\"", "null", "true", "37.5"] {
            assert!(
                serde_json::from_str::<FlagsAccess>(wrong).is_err(),
                "{wrong}"
            );
        }
    }
}
