//! How long the activity log is; a trigger of its table counts.

use crate::activity::ActivityScope;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// The entries of one scope in one organization.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "activity_counts")]
pub struct Model {
    /// Whose they are.
    #[sea_orm(primary_key, auto_increment = false)]
    pub organization_id: Uuid,
    /// What they are about.
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope: ActivityScope,
    /// How many there are.
    pub entries: i64,
}

/// It refers to nothing, as the log does.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
