//! What nodes took in of each grant, and what they may still take in unasked.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One node's part of one grant.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_slices")]
pub struct Model {
    /// The node's name.
    #[sea_orm(primary_key, auto_increment = false)]
    pub node: String,
    /// Whose events.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// The migration that they come under; nil without an approval.
    #[sea_orm(primary_key, auto_increment = false)]
    pub grant_id: Uuid,
    /// Events that the node counted, ever.
    pub events_counted: i64,
    /// Events that it was given and that are neither counted nor given back.
    pub events_held: i64,
}

/// Reached by names and numbers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
