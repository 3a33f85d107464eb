//! Lengths of the activity log by scope; a trigger of its table counts.

use crate::activity::ActivityScope;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Number of entries of one scope in one organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "activity_counts")]
pub struct Model {
    /// Organization of the entries.
    #[sea_orm(primary_key, auto_increment = false)]
    pub organization_id: Uuid,
    /// Kind of object that the entries are about.
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope: ActivityScope,
    /// Number of entries.
    pub entries: i64,
}

/// Relations: none, as for the log.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
