//! Leases: tasks that one process at a time may do.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Lease of a task.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "leases")]
pub struct Model {
    /// Name of the task.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Process that holds the lease.
    pub holder: Uuid,
    /// Time at which it lapses, in microseconds of the database's clock.
    pub lapses_at: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
