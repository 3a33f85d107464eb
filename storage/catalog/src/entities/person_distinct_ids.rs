//! Which person a distinct id is of.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One distinct id that is known.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "person_distinct_ids")]
pub struct Model {
    /// Whose.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// As events have it.
    #[sea_orm(primary_key, auto_increment = false)]
    pub distinct_id: String,
    /// The person.
    pub person_id: Uuid,
    /// When the `$identify` happened that gave the id to this person: of several the earliest.
    /// None where the id is the person's own, or was merged for good.
    pub identified_at: Option<UtcTime>,
    /// The event's uuid, which decides between two of one time.
    pub identified_by: Option<Uuid>,
    /// The step that changed it last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
