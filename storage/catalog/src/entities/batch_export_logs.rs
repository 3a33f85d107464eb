//! Log lines of exports and their runs.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, PrimaryKeyTrait, Uuid,
};

/// Log line.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_export_logs")]
pub struct Model {
    /// Number in the order of writing.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// Export of the line.
    pub batch_export_id: Uuid,
    /// Run of the line; null: the line is of the export itself.
    pub run_id: Option<Uuid>,
    /// Time of writing.
    pub logged_at: UtcTime,
    /// Severity of the line.
    pub level: LogLevel,
    /// Text for people; no secrets.
    pub message: String,
}

/// Severity of a line.
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
