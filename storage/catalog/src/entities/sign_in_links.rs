//! Links by which people sign in, once. Their tokens are not kept.

use super::sessions::SignInMethod;
use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Link that nobody has used yet; its row is deleted when it is used.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sign_in_links")]
pub struct Model {
    /// UUID v7. It gives no access: the token does.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// User whom the link signs in.
    pub user_id: i64,
    /// SHA-256 of the token, in hex.
    #[sea_orm(unique)]
    pub token_hash: String,
    /// Way in which the user gets the link.
    pub method: SignInMethod,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which the link stops working.
    pub expires_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
