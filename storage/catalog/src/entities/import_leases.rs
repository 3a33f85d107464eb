//! Quota leases: events of each grant that nodes may import without asking.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Part of a lease that is of one grant.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "import_leases")]
pub struct Model {
    /// Random id of the start of a node, which holds the lease.
    #[sea_orm(primary_key, auto_increment = false)]
    pub holder: Uuid,
    /// Project of the events.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Migration that the events are counted under; nil for the default quota.
    #[sea_orm(primary_key, auto_increment = false)]
    pub grant_id: Uuid,
    /// Events that the holder counted.
    pub events_counted: i64,
    /// Events that the holder was leased and neither counted nor gave back.
    pub events_held: i64,
    /// Time from which the lease returns nothing, in microseconds since 1970 by the database's
    /// clock.
    pub expires_at: i64,
}

/// Reached by names and numbers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
