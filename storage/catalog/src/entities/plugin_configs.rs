//! Configurations of plugins in projects.

use crate::UtcTime;
use crate::stored_json::StoredJson;
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};
use serde::{Deserialize, Serialize};

/// Plugin in a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "plugin_configs")]
pub struct Model {
    /// Number in the order of creation.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Plugin that is configured.
    pub plugin_id: i64,
    /// Project that uses it; one configuration of a plugin each.
    pub team_id: i64,
    /// True if it runs.
    pub enabled: bool,
    /// Number among the project's plugins, from 1.
    pub position: i32,
    /// Values for the plugin's schema, an object.
    pub config: StoredJson,
    /// Keys of its secrets; null: they were not recorded, so every value may be one.
    pub secret_keys: Option<SecretKeys>,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time of the last change.
    pub updated_at: UtcTime,
}

/// Keys of values that people never see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(transparent)]
pub struct SecretKeys(pub Vec<String>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
