//! Plugins as projects use them.

use crate::UtcTime;
use sea_orm::FromJsonQueryResult;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, Json, PrimaryKeyTrait,
};
use serde::{Deserialize, Serialize};

/// One plugin in one project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "plugin_configs")]
pub struct Model {
    /// In the order of creation.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Which plugin.
    pub plugin_id: i64,
    /// In which project; one configuration of a plugin each.
    pub team_id: i64,
    /// Whether it runs.
    pub enabled: bool,
    /// Its place among the project's plugins, from 1.
    pub position: i32,
    /// Values of what the plugin's schema asks for, an object.
    pub config: Json,
    /// The keys of its secrets; null: nobody noted them, so all may be.
    pub secret_keys: Option<SecretKeys>,
    /// When it was made.
    pub created_at: UtcTime,
    /// When it last changed.
    pub updated_at: UtcTime,
}

/// The keys of values that people never see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJsonQueryResult)]
#[serde(transparent)]
pub struct SecretKeys(pub Vec<String>);

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
