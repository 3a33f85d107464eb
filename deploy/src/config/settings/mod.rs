//! The settings as the user writes them: flags, variables and keys of the file.

mod admin;
mod clickhouse;
mod exports;
mod ingest;
mod listen;
mod logging;
mod persons;
mod tls;
mod traces;
mod values;

pub use clickhouse::ClickHouseSettings;
pub use ingest::{AckSetting, IngestSettings};
pub use logging::{LogFormat, LogSettings};
pub use tls::TlsSettings;
pub use traces::TraceSettings;

use admin::AdminSettings;
use clap::Args;
use exports::ExportSettings;
use listen::{ListenAddress, listen_address};
use persons::PersonLimits;
use std::path::PathBuf;

/// All settings. Every flag is also a key of the file (with `_` for `-`) and a variable.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings (also MILLRACE_<NAME>, and keys of the file)")]
pub struct Settings {
    /// TOML file with settings; by default `millrace.toml` in the working directory, if it exists
    #[arg(long, global = true, env = "MILLRACE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of all data: logs, catalog, embedded ClickHouse and keys
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DATA_DIR",
        default_value = "./millrace-data",
        value_name = "DIR"
    )]
    pub data_dir: PathBuf,
    /// Listen address for events
    #[arg(
        long,
        global = true,
        env = "MILLRACE_INGEST_ADDR",
        value_parser = listen_address,
        alias = "port",
        default_value = "127.0.0.1:8000",
        value_name = "ADDR"
    )]
    pub ingest_addr: ListenAddress,
    /// Listen address of the organization API
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8010",
        value_name = "ADDR"
    )]
    pub admin_addr: ListenAddress,
    /// Listen address of health checks and metrics
    ///
    /// `/_health/live`, `/_health/ready` (with `?verbose` for every part and what is wrong with it)
    /// and `/metrics` (Prometheus) answer there, on a thread of their own.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_HEALTH_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8011",
        value_name = "ADDR"
    )]
    pub health_addr: ListenAddress,
    /// TLS of the listeners
    #[command(flatten)]
    pub tls: TlsSettings,
    /// ClickHouse
    #[command(flatten)]
    pub clickhouse: ClickHouseSettings,
    /// URL of the catalog's database: sqlite://… or postgres://…; SQLite in the data folder by
    /// default
    ///
    /// Several nodes share a catalog in PostgreSQL.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub database_url: Option<String>,
    /// Public URL that clients send events to, if it is not `ingest_addr`
    #[arg(long, global = true, env = "MILLRACE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// Public URL of the organization API; by default taken from each request
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_PUBLIC_URL",
        value_name = "URL"
    )]
    pub admin_public_url: Option<String>,
    /// Organization API
    #[command(flatten)]
    pub admin: AdminSettings,
    /// Batch exports
    #[command(flatten)]
    pub exports: ExportSettings,
    /// Persons and groups
    #[command(flatten)]
    pub persons: PersonLimits,
    /// Key that encrypts secrets of destinations, the base64 of 32 bytes; by default generated at
    /// the first start and kept in <data dir>/secret.key
    ///
    /// Processes that share a catalog need the same key. Older keys, separated from it by commas,
    /// still decrypt what they encrypted.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SECRET_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub secret_key: Option<String>,
    /// Ingestion
    #[command(flatten)]
    pub ingest: IngestSettings,
    /// Log lines
    #[command(flatten)]
    pub logging: LogSettings,
    /// Traces
    #[command(flatten)]
    pub traces: TraceSettings,
}
