//! Counters by name; a changed one tells other processes to read again.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Counter of changes.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "catalog_versions")]
pub struct Model {
    /// Name of the counter.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Number of changes.
    pub version: i64,
}

/// Relations: none.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
