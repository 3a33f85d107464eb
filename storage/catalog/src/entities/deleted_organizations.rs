//! Organizations that are gone, whose entries of the activity log are still to be deleted.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Deleted organization. A trigger creates the row, in the transaction that deletes the
/// organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deleted_organizations")]
pub struct Model {
    /// Id of the organization.
    #[sea_orm(primary_key, auto_increment = false)]
    pub organization_id: Uuid,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
