//! The settings as the user writes them: flags, variables and keys of the file.

use super::admin_limits::AdminLimits;
use super::choices::{AckSetting, LogFormat};
use super::values::{listen_address, log_filter, size};
use bytesize::ByteSize;
use clap::Args;
use millrace_clickhouse::InsertQuorum;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What can be set. Every flag is also a key of the file (with `_` for `-`) and a variable.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings (also MILLRACE_<NAME>, and keys of the file)")]
pub struct Settings {
    /// TOML file with these settings; `millrace.toml` is read when it is there
    #[arg(long, global = true, env = "MILLRACE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of everything that is kept
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DATA_DIR",
        default_value = "./millrace-data",
        value_name = "DIR"
    )]
    pub data_dir: PathBuf,
    /// Where clients post events
    #[arg(
        long,
        global = true,
        env = "MILLRACE_INGEST_ADDR",
        value_parser = listen_address,
        alias = "port",
        default_value = "127.0.0.1:8000",
        value_name = "ADDR"
    )]
    pub ingest_addr: SocketAddr,
    /// Where the organization API answers
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8010",
        value_name = "ADDR"
    )]
    pub admin_addr: SocketAddr,
    /// Where health and metrics answer, on a thread of their own
    #[arg(
        long,
        global = true,
        env = "MILLRACE_HEALTH_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8011",
        value_name = "ADDR"
    )]
    pub health_addr: SocketAddr,
    /// Where the embedded ClickHouse listens
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8123",
        value_name = "ADDR"
    )]
    pub clickhouse_addr: SocketAddr,
    /// HTTP interface of a ClickHouse server to use instead of the embedded one
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_URL",
        value_name = "URL"
    )]
    pub clickhouse_url: Option<String>,
    /// PEM file of the authority of an https:// server's certificate, instead of the system's
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_CA_FILE",
        value_name = "FILE"
    )]
    pub clickhouse_ca_file: Option<PathBuf>,
    /// User to insert and query as; `millrace` in the embedded one, `default` in a server
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_USER",
        value_name = "NAME"
    )]
    pub clickhouse_user: Option<String>,
    /// Password of that user; the embedded one's is made at the first start
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_PASSWORD",
        hide_env_values = true,
        value_name = "TEXT"
    )]
    pub clickhouse_password: Option<String>,
    /// Cluster of that server to create replicated tables on
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_CLUSTER",
        value_name = "NAME"
    )]
    pub clickhouse_cluster: Option<String>,
    /// Replicas that an insert must reach to count as stored: 2 or more, or `auto` for most
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_INSERT_QUORUM",
        value_name = "REPLICAS"
    )]
    pub clickhouse_insert_quorum: Option<InsertQuorum>,
    /// Most memory that the embedded ClickHouse takes
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_MEMORY",
        value_parser = size,
        default_value = "2GiB",
        value_name = "SIZE"
    )]
    pub clickhouse_memory: ByteSize,
    /// Folder that backups of the embedded ClickHouse are written to and read from;
    /// <data dir>/clickhouse/backups by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_BACKUP_DIR",
        value_name = "DIR"
    )]
    pub clickhouse_backup_dir: Option<PathBuf>,
    /// Ways out of the embedded ClickHouse that its user may take, as in `s3,url`; none by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_SOURCES",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub clickhouse_sources: Vec<String>,
    /// The engine's library, when it is not where `make run` puts it
    #[arg(long, global = true, env = "MILLRACE_LIBCHDB", value_name = "FILE")]
    pub libchdb: Option<PathBuf>,
    /// Catalog: sqlite://… or postgres://…; SQLite in the data folder by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub database_url: Option<String>,
    /// URL by which clients reach the ingest listener, when it is not its address
    #[arg(long, global = true, env = "MILLRACE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// URL by which clients reach the organization API, when it is not as they say
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_PUBLIC_URL",
        value_name = "URL"
    )]
    pub admin_public_url: Option<String>,
    /// How much the organization API serves and keeps
    #[command(flatten)]
    pub admin: AdminLimits,
    /// SMTP server for invitations: smtp://host, smtp://user:password@host?tls=required, smtps://…
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SMTP_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub smtp_url: Option<String>,
    /// Who sends these mails, as in `Millrace <millrace@example.com>`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MAIL_FROM",
        value_name = "ADDRESS"
    )]
    pub mail_from: Option<String>,
    /// Nameserver that proves domains; the system's by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DNS_NAMESERVER",
        value_name = "ADDR"
    )]
    pub dns_nameserver: Option<String>,
    /// Folder or URL of the plugins that can be installed; a small built-in list by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGIN_CATALOGUE",
        value_name = "PLACE"
    )]
    pub plugin_catalogue: Option<String>,
    /// Domain below which our reverse proxies answer
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PROXY_BASE_NAME",
        default_value = "proxy.localhost",
        value_name = "DOMAIN"
    )]
    pub proxy_base_name: String,
    /// Folder that exports to files stay in; without it there are no such exports
    #[arg(long, global = true, env = "MILLRACE_EXPORT_ROOT", value_name = "DIR")]
    pub export_root: Option<PathBuf>,
    /// Batch exports that an organization may have; 0: any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_BATCH_EXPORTS_MAX",
        value_name = "COUNT",
        default_value_t = 200
    )]
    pub batch_exports_max: u64,
    /// Plugins that an organization may have; 0: any number
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGINS_MAX",
        value_name = "COUNT",
        default_value_t = 500
    )]
    pub plugins_max: u64,
    /// Batch exports that run at a time, half of them (at least one) of one organization; 0: other
    /// processes run them
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_MAX",
        value_name = "COUNT",
        default_value_t = 2
    )]
    pub export_runs_max: usize,
    /// Days that runs of batch exports are kept after their end; 0: for ever
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_RUNS_KEPT_DAYS",
        value_name = "DAYS",
        default_value_t = 365
    )]
    pub export_runs_kept_days: u32,
    /// Days that lines of their logs are kept; 0: as long as the runs
    #[arg(
        long,
        global = true,
        env = "MILLRACE_EXPORT_LOGS_KEPT_DAYS",
        value_name = "DAYS",
        default_value_t = 30
    )]
    pub export_logs_kept_days: u32,
    /// Days that what events say of persons is kept in ClickHouse once it was applied, and on to
    /// the end of its month: as long as backups of the catalog
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PERSON_UPDATES_KEPT_DAYS",
        value_name = "N",
        default_value_t = 30
    )]
    pub person_updates_kept_days: u32,
    /// Distinct ids and groups of a project that may become known by what arrives within an hour,
    /// each of which is kept for good; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_NEW_DISTINCT_IDS_PER_HOUR_MAX",
        value_name = "N",
        default_value_t = 1_000_000
    )]
    pub new_distinct_ids_per_hour_max: u64,
    /// Distinct ids a person may have to become part of another by alias or merge; 0: no limit
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MERGED_DISTINCT_IDS_MAX",
        value_name = "N",
        default_value_t = 10_000
    )]
    pub merged_distinct_ids_max: u64,
    /// Let exports, and the checks of proxy records, go to private networks, too
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ALLOW_PRIVATE_DESTINATIONS",
        default_value_t = false,
        default_missing_value = "true",
        num_args = 0..=1,
        require_equals = true,
        value_name = "BOOL",
        action = clap::ArgAction::Set
    )]
    pub allow_private_destinations: bool,
    /// Key that secrets of destinations are encrypted with: the base64 of 32 bytes; by default it
    /// is made at the first start and kept in <data dir>/secret.key
    #[arg(
        long,
        global = true,
        env = "MILLRACE_SECRET_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub secret_key: Option<String>,
    /// When a request is answered with success
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ACK",
        default_value = "disk",
        value_name = "WHEN"
    )]
    pub ack: AckSetting,
    /// Folder of the logs; <data dir>/log by default
    #[arg(long, global = true, env = "MILLRACE_LOG_DIR", value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Room for the logs; 10 GiB or 80 % of the disk by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_BYTES_MAX",
        value_parser = size,
        value_name = "SIZE"
    )]
    pub log_bytes_max: Option<ByteSize>,
    /// Threads that take requests; one per core by default
    #[arg(long, global = true, env = "MILLRACE_WORKERS", value_name = "N")]
    pub workers: Option<usize>,
    /// Peers (addresses or networks) whose X-Forwarded-For, -Host and -Proto are believed
    #[arg(
        long,
        global = true,
        env = "MILLRACE_TRUSTED_PROXIES",
        value_delimiter = ',',
        value_name = "NET,…"
    )]
    pub trusted_proxies: Vec<String>,
    /// Seconds that a shutdown goes on taking connections while its health says not ready: as long
    /// as a load balancer takes to notice
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DRAIN_SECONDS",
        default_value_t = 0,
        value_name = "N"
    )]
    pub drain_seconds: u64,
    /// Seconds that a shutdown may take after that to finish and ship what is in flight
    #[arg(
        long,
        global = true,
        env = "MILLRACE_GRACE_SECONDS",
        default_value_t = 10,
        value_name = "N"
    )]
    pub grace_seconds: u64,
    /// How log lines look
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_FORMAT",
        default_value = "human",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// Which log lines are written, as in `info,millrace_pipeline=debug`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_LEVEL",
        value_parser = log_filter,
        default_value = "info,sea_orm_migration=warn",
        value_name = "FILTER"
    )]
    pub log_level: String,
}
