//! Batch exports: their settings and their planner's state.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveActiveEnum, DeriveEntityModel, DerivePrimaryKey, DeriveRelation,
    EntityTrait, EnumIter, Json, PrimaryKeyTrait, Uuid,
};
use sea_orm::{ActiveEnum, Iterable};

/// Batch export.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "batch_exports")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization that owns the export.
    pub organization_id: Uuid,
    /// Project whose events are exported.
    pub team_id: i64,
    /// Name for people.
    pub name: String,
    /// Data that is exported.
    pub model: ExportModel,
    /// Type of the destination.
    pub destination_type: DestinationType,
    /// Configuration of the destination: an object of the fields that are no secrets, as they were
    /// given.
    pub destination_config: Json,
    /// Secret fields of the destination, each encrypted for this export and field.
    pub destination_secrets: Json,
    /// True if files go below the folder of all exports, as the path was given before organizations
    /// had folders of their own there.
    pub files_at_root: bool,
    /// `hour`, `day`, `week` or `every N minutes`.
    pub interval: String,
    /// True: no runs are triggered.
    pub paused: bool,
    /// Time of the last pause, for people, who may write it: nothing is decided by it.
    pub last_paused_at: Option<UtcTime>,
    /// Start of the present pause; null while it is not paused.
    pub paused_since: Option<UtcTime>,
    /// Time at which it was last resumed; null if it never was.
    pub resumed_at: Option<UtcTime>,
    /// Ranges of past pauses whose windows are still to be skipped: a list of `from` and `until`,
    /// in microseconds since 1970, in order; null for none.
    pub passed_over: Option<Json>,
    /// Time before which no run is triggered.
    pub start_at: Option<UtcTime>,
    /// Time after which no run is triggered.
    pub end_at: Option<UtcTime>,
    /// Query for rows and columns; null: all.
    pub hogql_query: Option<String>,
    /// Parsed form of the query.
    pub query_schema: Option<Json>,
    /// Time from which windows by the clock follow one another; null until the first is planned.
    pub live_since: Option<UtcTime>,
    /// End of the last window by the clock that was planned, or skipped as the export was paused.
    pub windows_until: Option<UtcTime>,
    /// End of the next window; null until it is known.
    pub next_window_end: Option<UtcTime>,
    /// Number of runs that there ever were: the ordinal of the newest.
    pub runs_count: i64,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field last changed.
    pub last_updated_at: UtcTime,
    /// Time since which its runs wait for the server's operator; null while they do not.
    pub waits_since: Option<UtcTime>,
    /// Time at which its administrators were told of that wait; null until then.
    pub wait_told_at: Option<UtcTime>,
    /// Time until which no run of it is claimed, in microseconds of the database's clock: what a
    /// cancelled one delivered may be taken back until then.
    pub busy_until: i64,
}

/// Data that an export has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum ExportModel {
    /// Events.
    Events,
    /// Persons of the events.
    Persons,
}

/// Type of a destination.
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
    #[sea_orm(string_value = "ClickHouse")]
    ClickHouse,
    #[sea_orm(string_value = "HTTP")]
    Http,
    #[sea_orm(string_value = "NoOp")]
    NoOp,
}

impl DestinationType {
    /// All types, in the order of the documents.
    pub fn all() -> impl Iterator<Item = Self> {
        <Self as Iterable>::iter()
    }

    /// Name on the wire.
    #[must_use]
    pub fn name(self) -> String {
        ActiveEnum::to_value(&self)
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
