//! Reports of nodes about themselves.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Last report of a node.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "node_reports")]
pub struct Model {
    /// Name of the node.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Address at which it accepts events.
    pub address: String,
    /// Version of its program.
    pub version: String,
    /// Bytes in its log that are not in ClickHouse yet.
    pub log_bytes: i64,
    /// Time of the report by the database's clock, in microseconds since 1970.
    pub heard_at: i64,
}

/// Reached by names, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
