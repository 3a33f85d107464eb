//! Group types of projects.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Group type of a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "group_types")]
pub struct Model {
    /// Project of the type.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Name in events.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Index among the types of the project, from 0.
    pub position: i16,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
