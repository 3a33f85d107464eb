//! Distinct ids and their persons.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Distinct id that is known.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_distinct_ids")]
pub struct Model {
    /// Project of the id.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Id as events have it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub distinct_id: String,
    /// Person of the id.
    pub person_id: Uuid,
    /// Time of the `$identify` that gave the id to this person: of several the earliest. None where
    /// the id is the person's own, or was merged for good.
    pub identified_at: Option<UtcTime>,
    /// Uuid of that event, which decides between two of one time.
    pub identified_by: Option<Uuid>,
    /// Step that changed the row last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
