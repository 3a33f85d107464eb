//! Sessions of people in browsers. Their tokens are not kept.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveEnum, ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey,
    DeriveRelation, EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// Session; its row is deleted when it ends.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "sessions")]
pub struct Model {
    /// UUID v7. It gives no access: the token does.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// User who signed in, whose rights the session has.
    pub user_id: i64,
    /// SHA-256 of the token, in hex.
    #[sea_orm(unique)]
    pub token_hash: String,
    /// Way in which the user signed in.
    pub method: SignInMethod,
    /// Browser as it named itself, cut off at 200 characters; may be empty.
    pub user_agent: String,
    /// Time of signing in.
    pub created_at: UtcTime,
    /// Time of the last use, written at most every five minutes.
    pub last_used_at: UtcTime,
    /// Time at which it ends, however much it is used.
    pub expires_at: UtcTime,
}

/// Way in which a person signed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum SignInMethod {
    /// Link of the operator, printed at the first start or by a command.
    Link,
    /// Link that was mailed to the user's address.
    Mail,
    /// Invite that was accepted with a new account.
    Invite,
}

impl SignInMethod {
    /// Name in tables and in the activity log.
    #[must_use]
    pub fn name(self) -> String {
        self.to_value()
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
