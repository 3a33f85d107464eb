//! Batch exports that are gone, whose runs, backfills and lines are still to be deleted.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Deleted export. A trigger creates the row, in the transaction that deletes the export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "deleted_batch_exports")]
pub struct Model {
    /// Id of the export.
    #[sea_orm(primary_key, auto_increment = false)]
    pub batch_export_id: Uuid,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
