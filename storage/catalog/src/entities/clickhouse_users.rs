//! Users of projects in ClickHouse.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait,
};

/// User of one project that asked for one. Whoever runs ClickHouse makes it from this row.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "clickhouse_users")]
pub struct Model {
    /// Project whose rows the user sees.
    #[sea_orm(primary_key, auto_increment = false)]
    pub team_id: i64,
    /// SHA-256 of the password, as hexadecimal digits. Passwords are random and long.
    pub password_sha256: String,
    /// Hash of the token that belongs to the password, by which the embedded engine finds the
    /// project.
    pub token_sha256: String,
    /// Time of the last password.
    pub rotated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
