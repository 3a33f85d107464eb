//! Proxy records: domains of organizations that point to this server.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// Proxy record of a domain.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "proxy_records")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization of the record.
    pub organization_id: Uuid,
    /// Domain in Punycode, lower case, no dot at the end; never changes. An organization has it
    /// once; it is unique among records whose status is proven.
    pub domain: String,
    /// Expected target of the domain's CNAME record.
    pub target_cname: String,
    /// Status of the record.
    pub status: ProxyStatus,
    /// Text about the problem and its remedy.
    pub message: Option<String>,
    /// User who created the record; null once they are gone.
    pub created_by: Option<i64>,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field last changed.
    pub updated_at: UtcTime,
    /// Time of the next check.
    pub check_at: UtcTime,
}

/// Status of a proxy record.
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
    /// Statuses of a domain that points here: one record of a domain has one of these.
    pub const PROVEN: [Self; 2] = [Self::Valid, Self::Warning];
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
