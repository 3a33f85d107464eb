//! What each project imported unasked, and how fast it may go on.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// One project that imported something, or tried to. Its row is what nodes queue up for.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "historical_allowances")]
pub struct Model {
    /// Whose it is.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Events that came without an approval.
    pub events_unasked: i64,
    /// What the bucket holds, in sixty-millionths of an event: what a rate of one event a minute
    /// adds in a microsecond.
    pub bucket_units: i64,
    /// The rate that the bucket was filled by last; 0: it is full at any rate.
    pub bucket_per_minute: i64,
    /// Up to when it was filled, in microseconds since 1970 by the database's clock.
    pub bucket_at: i64,
    /// The node that was refused for what others hold.
    pub wanted_by: Option<String>,
    /// When that was, in microseconds since 1970 by the database's clock.
    pub wanted_at: i64,
}

/// Reached by numbers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
