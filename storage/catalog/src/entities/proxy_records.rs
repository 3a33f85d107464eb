//! Domains that stand for us: reverse proxies of organizations.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// One domain.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "proxy_records")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Whose it is.
    pub organization_id: Uuid,
    /// Punycode, lower case, no dot at the end; never changes. An organization has it once; it is unique
    /// among those whose status is proven.
    pub domain: String,
    /// What its CNAME record must lead to.
    pub target_cname: String,
    /// How far it is.
    pub status: ProxyStatus,
    /// What is missing and what to do.
    pub message: Option<String>,
    /// Who asked for it; null once they are gone.
    pub created_by: Option<i64>,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a field last changed.
    pub updated_at: UtcTime,
    /// When it is looked at next.
    pub check_at: UtcTime,
}

/// How far a domain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ProxyStatus {
    /// Its CNAME record is missing or leads elsewhere.
    Waiting,
    /// The CNAME record is right; HTTPS does not work yet.
    Issuing,
    /// It works.
    Valid,
    /// It worked, and something is about to go wrong.
    Warning,
    /// It worked, and does not any more.
    Erroring,
    /// It never worked, for too long.
    TimedOut,
    /// It is about to go.
    Deleting,
}

impl ProxyStatus {
    /// Those of a domain that leads here: one record of a domain has such a one.
    pub(crate) const PROVEN: [Self; 2] = [Self::Valid, Self::Warning];
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
