//! Projects that are gone, whose persons, distinct ids and groups are still to be deleted.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Deleted project. A trigger creates the row, in the transaction that deletes the project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deleted_projects")]
pub struct Model {
    /// Id of the project, which no other one ever gets.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
