//! Groups, as what events say has made them.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// One group.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "groups")]
pub struct Model {
    /// Whose.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// What sort of group.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_type: String,
    /// Which one.
    #[sea_orm(primary_key, auto_increment = false)]
    pub group_key: String,
    /// When the first event happened that described it.
    pub created_at: UtcTime,
    /// As those of persons.
    pub properties: String,
    /// The step that changed it last.
    pub version: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
