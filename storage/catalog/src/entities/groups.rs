//! Groups, the state that events' updates lead to.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Group of a project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "groups")]
pub struct Model {
    /// Project of the group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// Type of the group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_type: String,
    /// Key of the group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_key: String,
    /// Time of the first event that described it.
    pub created_at: UtcTime,
    /// Properties, encoded like those of persons.
    pub properties: String,
    /// Step that changed the row last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
