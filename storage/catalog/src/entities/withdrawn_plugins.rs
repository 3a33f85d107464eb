//! Plugins that were withdrawn, whose configurations in other organizations are to be deleted.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Withdrawn plugin. The row is made in the transaction in which the plugin ceases to be global.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "withdrawn_plugins")]
pub struct Model {
    /// Id of the plugin.
    #[sea_orm(primary_key, auto_increment = false)]
    pub plugin_id: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
