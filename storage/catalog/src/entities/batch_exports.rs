//! Batch exports: what is sent where, and how often.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, Json, PrimaryKeyTrait, Uuid,
};
use sea_orm::{ActiveEnum, Iterable};

/// One export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_exports")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Whose it is.
    pub organization_id: Uuid,
    /// Whose events are exported.
    pub team_id: i64,
    /// What people call it.
    pub name: String,
    /// What is exported.
    pub model: ExportModel,
    /// Where to.
    pub destination_type: DestinationType,
    /// How to get there: an object of the fields that are no secrets, as they were given.
    pub destination_config: Json,
    /// The others, each encrypted for this export and field.
    pub destination_secrets: Json,
    /// Says that files go below the folder of all exports, as its path was given before organizations
    /// had folders of their own there.
    pub files_at_root: bool,
    /// `hour`, `day`, `week` or `every N minutes`.
    pub interval: String,
    /// Whether runs are not triggered.
    pub paused: bool,
    /// When it was last paused, for people, who may write it: nothing is decided by it.
    pub last_paused_at: Option<UtcTime>,
    /// Since when it is paused; null while it is not.
    pub paused_since: Option<UtcTime>,
    /// When it was last let run again; null if it never was.
    pub resumed_at: Option<UtcTime>,
    /// Pauses that are over, and whose windows are still to be passed over: a list of `from` and `until`, in
    /// microseconds since 1970, in order; null for none.
    pub passed_over: Option<Json>,
    /// No run is triggered before.
    pub start_at: Option<UtcTime>,
    /// No run is triggered after.
    pub end_at: Option<UtcTime>,
    /// Which rows and columns; null: all.
    pub hogql_query: Option<String>,
    /// What the query says, taken apart.
    pub query_schema: Option<Json>,
    /// From when on windows by the clock follow one another; null until the first is planned.
    pub live_since: Option<UtcTime>,
    /// The end of the last window by the clock that was planned, or passed over while paused.
    pub windows_until: Option<UtcTime>,
    /// The end of the next one; null until it is known.
    pub next_window_end: Option<UtcTime>,
    /// How many runs there ever were: the ordinal of the newest.
    pub runs_count: i64,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a field last changed.
    pub last_updated_at: UtcTime,
    /// Since when its runs wait for the server's operator; null while they do not.
    pub waits_since: Option<UtcTime>,
    /// When somebody was told so; null while nobody was.
    pub wait_told_at: Option<UtcTime>,
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ExportModel {
    /// Events.
    Events,
    /// The persons behind them.
    Persons,
}

/// Where exports can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text")]
#[allow(missing_docs, reason = "named after what they are")]
pub enum DestinationType {
    #[sea_orm(string_value = "S3")]
    S3,
    #[sea_orm(string_value = "AzureBlob")]
    AzureBlob,
    #[sea_orm(string_value = "GCS")]
    Gcs,
    #[sea_orm(string_value = "FileSystem")]
    FileSystem,
    #[sea_orm(string_value = "Postgres")]
    Postgres,
    #[sea_orm(string_value = "Redshift")]
    Redshift,
    #[sea_orm(string_value = "Snowflake")]
    Snowflake,
    #[sea_orm(string_value = "BigQuery")]
    BigQuery,
    #[sea_orm(string_value = "Databricks")]
    Databricks,
    #[sea_orm(string_value = "HTTP")]
    Http,
    #[sea_orm(string_value = "NoOp")]
    NoOp,
}

impl DestinationType {
    /// Every type, in the order of the documents.
    pub fn all() -> impl Iterator<Item = Self> {
        <Self as Iterable>::iter()
    }

    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> String {
        ActiveEnum::to_value(&self)
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
