//! Bytes of stored responses that users and organizations have, by the hour.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Bytes that one holder stored within an hour.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency_bytes")]
pub struct Model {
    /// `user <number>` or `organization <id>`.
    #[sea_orm(primary_key, auto_increment = false)]
    pub holder: String,
    /// Start of the hour.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hour: UtcTime,
    /// Bytes of bodies and rows.
    pub bytes: i64,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
