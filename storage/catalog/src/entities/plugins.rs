//! Plugins: one table for five families.

use crate::UtcTime;
use crate::stored_json::StoredJson;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sea_orm::DeriveActiveEnum;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Plugin.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "plugins")]
pub struct Model {
    /// Number in the order of creation.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Organization that made it, and may change it.
    pub organization_id: Uuid,
    /// Origin of its code; null: not given.
    pub plugin_type: Option<PluginType>,
    /// Name, at most 200 characters.
    pub name: Option<String>,
    /// Description for people.
    pub description: Option<String>,
    /// URL in the catalogue, secrets and all; unique in the organization.
    pub url: Option<String>,
    /// URL of a picture.
    pub icon: Option<String>,
    /// Schema of its configuration, free-form.
    pub config_schema: StoredJson,
    /// Version that is installed.
    pub tag: Option<String>,
    /// Latest version in the catalogue.
    pub latest_tag: Option<String>,
    /// True if every organization sees it.
    pub is_global: bool,
    /// Capabilities, read from its source or given by its maker.
    pub capabilities: StoredJson,
    /// Metrics that it counts, free-form.
    pub metrics: Option<StoredJson>,
    /// Jobs that users may start, free-form.
    pub public_jobs: Option<StoredJson>,
    /// True if it is in the family of destinations.
    pub is_destination: bool,
    /// True if it is in the family of frontend apps.
    pub is_frontend_app: bool,
    /// True if it is in the family of import apps.
    pub is_import_app: bool,
    /// True if it is in the family of transformations.
    pub is_transformation: bool,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field or a file last changed.
    pub updated_at: UtcTime,
}

/// Origin of a plugin's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum PluginType {
    /// Folder of the server.
    Local,
    /// URL.
    Custom,
    /// The catalogue.
    Repository,
    /// Files that are kept with the plugin.
    Source,
    /// The server itself.
    Inline,
}

impl JsonSchema for PluginType {
    fn schema_name() -> Cow<'static, str> {
        "PluginType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": ["local", "custom", "repository", "source", "inline"],
            "description": "Origin of a plugin's code.",
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
    fn the_schema_lists_the_types_as_they_are_stored_and_written() {
        let stored: Vec<_> = PluginType::iter().map(|kind| kind.to_value()).collect();
        let schema = SchemaGenerator::default().into_root_schema_for::<PluginType>();
        let listed = schema.get("enum").cloned().unwrap();
        assert_eq!(listed, serde_json::json!(stored));
        let written: Vec<_> = PluginType::iter().collect();
        assert_eq!(listed, serde_json::json!(written));
        assert_eq!(
            serde_json::from_value::<Vec<PluginType>>(listed).unwrap(),
            written
        );
    }
}
