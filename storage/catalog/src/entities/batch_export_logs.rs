//! What exports and their runs have to say.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_logs")]
pub struct Model {
    /// In the order of writing.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Of which export.
    pub batch_export_id: Uuid,
    /// Of which run; null: of the export itself.
    pub run_id: Option<Uuid>,
    /// When it was said.
    pub logged_at: UtcTime,
    /// How bad it is.
    pub level: LogLevel,
    /// For people; no secrets.
    pub message: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum LogLevel {
    Debug,
    Info,
    Warning,
    Error,
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
