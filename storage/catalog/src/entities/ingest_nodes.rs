//! Nodes that take events, and their watermarks.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait,
};

/// Node: a log, and the process that has it or had it.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "ingest_nodes")]
pub struct Model {
    /// Name of the node, as its data folder has it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub name: String,
    /// Machine on which it last started, for people.
    pub host: String,
    /// State, which decides whether exports wait for the node.
    pub state: NodeState,
    /// Time before which every row of the node, by `created_at`, is in ClickHouse, and it makes
    /// none any more; null until the node first publishes it.
    pub watermark: Option<UtcTime>,
    /// Time before which that holds for its person updates; null if it is not known apart.
    pub updates_watermark: Option<UtcTime>,
    /// Time of its last report, by its own clock.
    pub published_at: UtcTime,
    /// Time of its last start, by its own clock.
    pub started_at: UtcTime,
    /// Number of its starts, as far as they were counted.
    pub start_count: i64,
    /// Random id of its last start; empty for those that were not counted.
    pub start_id: String,
}

/// State of a node, which decides whether exports wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum NodeState {
    /// It may have rows of any time, as it has not published a watermark yet: nothing may run.
    Starting,
    /// Exports run up to its watermark, whether or not its process lives.
    Running,
    /// It ended, and all its rows are in ClickHouse: exports do not wait for it.
    Stopped,
}

impl Model {
    /// Time before which every person update of the node is in ClickHouse, and it makes none any
    /// more: never before its watermark, which holds for all rows.
    #[must_use]
    pub fn updates_passed(&self) -> Option<UtcTime> {
        self.watermark.max(self.updates_watermark)
    }
}

/// Relations: none.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
