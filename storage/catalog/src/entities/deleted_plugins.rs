//! Plugins that are gone, whose source files are still to be deleted.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Deleted plugin. A trigger creates the row, in the transaction that deletes the plugin.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deleted_plugins")]
pub struct Model {
    /// Id of the plugin.
    #[sea_orm(primary_key, auto_increment = false)]
    pub plugin_id: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
