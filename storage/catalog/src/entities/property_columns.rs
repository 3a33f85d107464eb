//! Property columns: columns of `events` that hold one property each.

use crate::UtcTime;
use millrace_rows::{ProjectId, PropertyColumn, PropertyType};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Property column. Property, type and project never change: a change makes another column.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "property_columns")]
pub struct Model {
    /// Number of the column, never used again: rows may still have a column of that number.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Project that named the property; null: all projects.
    pub team_id: Option<i64>,
    /// Keys that lead to the property.
    pub path: PropertyPath,
    /// Type of the column.
    pub kind: PropertyColumnType,
    /// Longest text that is kept, in bytes; null for other types.
    pub bytes_max: Option<i32>,
    /// Time at which the property was named.
    pub created_at: UtcTime,
    /// Time since which `events` has the column; null until then.
    pub added_at: Option<UtcTime>,
}

/// Keys that lead to a property, a JSON array of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(transparent)]
pub struct PropertyPath(pub Vec<String>);

/// Type of a property column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text")]
pub enum PropertyColumnType {
    /// Texts.
    #[sea_orm(string_value = "String")]
    String,
    /// Texts that are few.
    #[sea_orm(string_value = "LowCardinality")]
    LowCardinality,
    /// Whole numbers.
    #[sea_orm(string_value = "Int64")]
    Int64,
    /// Numbers.
    #[sea_orm(string_value = "Float64")]
    Float64,
    /// Truth values.
    #[sea_orm(string_value = "Bool")]
    Bool,
    /// Times.
    #[sea_orm(string_value = "DateTime64")]
    DateTime64,
}

impl From<PropertyColumnType> for PropertyType {
    fn from(kind: PropertyColumnType) -> Self {
        match kind {
            PropertyColumnType::String => Self::String,
            PropertyColumnType::LowCardinality => Self::LowCardinality,
            PropertyColumnType::Int64 => Self::Int64,
            PropertyColumnType::Float64 => Self::Float64,
            PropertyColumnType::Bool => Self::Bool,
            PropertyColumnType::DateTime64 => Self::DateTime64,
        }
    }
}

impl From<&Model> for PropertyColumn {
    fn from(row: &Model) -> Self {
        let bytes_max = row.bytes_max.and_then(|bytes| u32::try_from(bytes).ok());
        Self {
            number: row.id,
            team_id: row.team_id.map(ProjectId),
            path: row.path.0.clone(),
            kind: row.kind.into(),
            bytes_max: bytes_max.unwrap_or_default(),
        }
    }
}

impl JsonSchema for PropertyColumnType {
    fn schema_name() -> Cow<'static, str> {
        "PropertyColumnType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": PropertyType::ALL.map(PropertyType::name),
            "description": "Type of a property column.",
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
    use sea_orm::{ActiveEnum, Iterable};

    #[test]
    fn a_type_is_stored_written_and_listed_by_its_name() {
        let types: Vec<PropertyColumnType> = PropertyColumnType::iter().collect();
        let names = PropertyType::ALL.map(PropertyType::name);
        let stored: Vec<String> = types.iter().map(|kind| kind.to_value()).collect();
        assert_eq!(stored, names);
        let rows: Vec<PropertyType> = types.iter().map(|kind| (*kind).into()).collect();
        assert_eq!(rows, PropertyType::ALL);
        let schema = SchemaGenerator::default().into_root_schema_for::<PropertyColumnType>();
        let listed = schema.get("enum").cloned().unwrap();
        assert_eq!(listed, serde_json::json!(names));
        assert_eq!(listed, serde_json::json!(types));
        let read: Vec<PropertyColumnType> = serde_json::from_value(listed).unwrap();
        assert_eq!(read, types);
    }
}
