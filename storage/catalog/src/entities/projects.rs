//! Projects: what events belong to.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "projects")]
pub struct Model {
    /// The team id of its events. Never used again after a project is deleted, because its events
    /// stay.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// For those who address it by UUID.
    #[sea_orm(unique)]
    pub uuid: Uuid,
    /// The organization it belongs to.
    pub organization_id: Uuid,
    /// What people call it.
    pub name: String,
    /// The project key; null after it was revoked and before a new one is made.
    #[sea_orm(unique)]
    pub api_token: Option<String>,
    /// The key was brought in from elsewhere: it has our form without our checksum.
    pub api_token_imported: bool,
    /// Whether clients' addresses are left out of events.
    pub anonymize_ips: bool,
    /// Whether it ever got an event; set by the ingestion path and never taken back.
    pub ingested_event: bool,
    /// IANA name.
    pub timezone: String,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a setting last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
