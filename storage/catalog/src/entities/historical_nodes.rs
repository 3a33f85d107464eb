//! How far each node counted the events of its log of imports.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// One node that takes imports in.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_nodes")]
pub struct Model {
    /// Its name, as its data folder has it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub node: String,
    /// The place in its log below which everything is counted: the segment …
    pub segment: i64,
    /// … and the offset in it.
    pub offset: i64,
    /// When it last said so, in microseconds since 1970 by the database's clock.
    pub seen_at: i64,
}

/// It refers to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
