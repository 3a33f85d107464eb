//! Requests that may be sent again, and what they were answered.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency_keys")]
pub struct Model {
    /// A hash of who asks, where, and the key that they chose.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// A hash of the body.
    pub request_hash: String,
    /// The status of the answer; null while the request is on its way.
    pub status: Option<i16>,
    /// The body of the answer, without secrets; the claim's name while the request is on its way.
    pub body: Option<String>,
    /// When it came.
    pub created_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
