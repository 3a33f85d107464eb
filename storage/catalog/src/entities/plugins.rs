//! Plugins: one table for the five views of the plugin family.

use crate::UtcTime;
use sea_orm::DeriveActiveEnum;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, Json, PrimaryKeyTrait, Uuid,
};

/// One plugin.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "plugins")]
pub struct Model {
    /// In the order of creation.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Who made it, and may change it.
    pub organization_id: Uuid,
    /// Where its code comes from; null: nobody said.
    pub plugin_type: Option<PluginType>,
    /// At most 200 characters.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Where the catalogue has it, secrets and all; unique in the organization.
    pub url: Option<String>,
    /// The address of a picture.
    pub icon: Option<String>,
    /// What may be configured, free-form.
    pub config_schema: Json,
    /// The version that is installed.
    pub tag: Option<String>,
    /// The version that the catalogue last had.
    pub latest_tag: Option<String>,
    /// Whether every organization sees it.
    pub is_global: bool,
    /// What it can do: read from its source, or said by whoever made it.
    pub capabilities: Json,
    /// What it counts, free-form.
    pub metrics: Option<Json>,
    /// What users may ask it to do, free-form.
    pub public_jobs: Option<Json>,
    /// Whether the view of destinations shows it.
    pub is_destination: bool,
    /// Whether the view of frontend apps shows it.
    pub is_frontend_app: bool,
    /// Whether the view of import apps shows it.
    pub is_import_app: bool,
    /// Whether the view of transformations shows it.
    pub is_transformation: bool,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a field or a file last changed.
    pub updated_at: UtcTime,
}

/// Where a plugin's code comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum PluginType {
    /// A folder of the server.
    Local,
    /// An address.
    Custom,
    /// The catalogue.
    Repository,
    /// The files that are kept with it.
    Source,
    /// The server itself.
    Inline,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
