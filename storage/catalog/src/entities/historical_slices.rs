//! Quota leases: events that nodes counted of each grant, and events that they may still take in.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Lease: one node's part of one grant.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_slices")]
pub struct Model {
    /// Name of the node.
    #[sea_orm(primary_key, auto_increment = false)]
    pub node: String,
    /// Project of the events.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Migration that the events are counted under; nil for the default quota.
    #[sea_orm(primary_key, auto_increment = false)]
    pub grant_id: Uuid,
    /// Events that the node counted, ever.
    pub events_counted: i64,
    /// Events that the node was leased and neither counted nor gave back.
    pub events_held: i64,
}

/// Reached by names and numbers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
