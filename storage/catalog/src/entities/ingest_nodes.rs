//! Nodes that take events, and how far each is.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait,
};

/// One node: a log, and the process that has it or had it.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ingest_nodes")]
pub struct Model {
    /// Its name, as its data folder has it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// The machine on which it last started, for people.
    pub host: String,
    /// Whether exports wait for it.
    pub state: NodeState,
    /// Every row of it with an earlier `created_at` is in ClickHouse, and it makes none any more;
    /// null until it has said so for the first time.
    pub watermark: Option<UtcTime>,
    /// When it last said how far it is, by its own clock.
    pub published_at: UtcTime,
    /// When it last started, by its own clock.
    pub started_at: UtcTime,
    /// How often it was started, as far as that was counted.
    pub start_count: i64,
    /// Random id of its last start; empty for those that were not counted.
    pub start_id: String,
}

/// Whether exports wait for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum NodeState {
    /// It may have rows of any time, as it has not said yet how far it is: nothing may run.
    Starting,
    /// Exports run up to its watermark, whether or not its process lives.
    Running,
    /// It ended, and all it had is in ClickHouse: nobody waits for it.
    Stopped,
}

/// It refers to nothing.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
