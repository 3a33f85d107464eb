//! Source files of plugins.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Source file.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "plugin_source_files")]
pub struct Model {
    /// Plugin that the file is of.
    #[sea_orm(primary_key, auto_increment = false)]
    pub plugin_id: i64,
    /// Path, such as `src/index.ts`.
    #[sea_orm(primary_key, auto_increment = false)]
    pub filename: String,
    /// Text of the file.
    pub source: String,
    /// Time at which it was last written.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
