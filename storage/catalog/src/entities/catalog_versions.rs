//! Counters by name; one that moved tells other processes to look again.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// One counter.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "catalog_versions")]
pub struct Model {
    /// What is counted.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// How often it changed.
    pub version: i64,
}

/// It refers to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
