//! Import quota of each project: the events of its default quota, and its rate limit.

use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Quota of one project that imported something, or tried to. Nodes queue up for the row's lock.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "import_quotas")]
pub struct Model {
    /// Project of the quota.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Events of the default quota that were leased, less those that were returned.
    pub events_leased: i64,
    /// Events that were imported under the default quota.
    pub events_imported: i64,
    /// Units in the bucket, in sixty-millionths of an event: a rate of one event a minute adds one
    /// unit in a microsecond.
    pub bucket_units: i64,
    /// Rate that the bucket was filled by last; 0: it is full at any rate.
    pub bucket_per_minute: i64,
    /// Time up to which it was filled, in microseconds since 1970 by the database's clock.
    pub bucket_at: i64,
}

/// Reached by numbers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
