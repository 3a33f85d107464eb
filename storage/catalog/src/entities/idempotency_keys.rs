//! Requests that may be sent again, with their answers.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// Request with an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency_keys")]
pub struct Model {
    /// Hash of the caller, the path and the key that the caller chose.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    /// Hash of the body.
    pub request_hash: String,
    /// Status of the answer; null while the request is being served.
    pub status: Option<i16>,
    /// Body of the answer, without secrets; the claim's name while the request is being served.
    pub body: Option<String>,
    /// Time of arrival.
    pub created_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
