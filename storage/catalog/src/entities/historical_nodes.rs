//! Positions up to which nodes have counted the events of their logs of imports.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Node that takes imports in.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_nodes")]
pub struct Model {
    /// Name of the node, as its data folder has it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub node: String,
    /// Segment of the position in its log below which everything is counted.
    pub segment: i64,
    /// Offset of that position in the segment.
    pub offset: i64,
    /// Time of its last report, in microseconds since 1970 by the database's clock.
    pub seen_at: i64,
}

/// Relations: none.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
