//! Projects, which events belong to.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Project.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "projects")]
pub struct Model {
    /// Id of the project, the `team_id` of its events. Never used again after a project is
    /// deleted, because its events stay.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// UUID, for callers that address the project by it.
    #[sea_orm(unique)]
    pub uuid: Uuid,
    /// Organization that owns the project.
    pub organization_id: Uuid,
    /// Name for people.
    pub name: String,
    /// Project key; null after it was revoked and before a new one is made.
    #[sea_orm(unique)]
    pub api_token: Option<String>,
    /// True if the key was imported from elsewhere: it has our form without our checksum.
    pub api_token_imported: bool,
    /// True if clients' addresses are left out of events.
    pub anonymize_ips: bool,
    /// True if the project ever got an event; set by the ingestion path and never reset.
    pub ingested_event: bool,
    /// Time zone, an IANA name.
    pub timezone: String,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a setting last changed.
    pub updated_at: UtcTime,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
