//! The settings as the user writes them: flags, variables and keys of the file.

use super::admin_limits::AdminLimits;
use super::choices::{AckSetting, LogFormat};
use super::exports::ExportSettings;
use super::persons::PersonLimits;
use super::values::{listen_address, log_filter, size};
use bytesize::ByteSize;
use clap::Args;
use millrace_clickhouse::InsertQuorum;
use std::net::SocketAddr;
use std::path::PathBuf;

/// All settings. Every flag is also a key of the file (with `_` for `-`) and a variable.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Settings (also MILLRACE_<NAME>, and keys of the file)")]
pub struct Settings {
    /// TOML file with these settings; `millrace.toml` is read when it is there
    #[arg(long, global = true, env = "MILLRACE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of all data
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DATA_DIR",
        default_value = "./millrace-data",
        value_name = "DIR"
    )]
    pub data_dir: PathBuf,
    /// Address that clients send events to
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
    /// Address of the organization API
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_ADDR",
        value_parser = listen_address,
        default_value = "127.0.0.1:8010",
        value_name = "ADDR"
    )]
    pub admin_addr: SocketAddr,
    /// Address of health checks and metrics
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
    pub health_addr: SocketAddr,
    /// Address of the embedded ClickHouse
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
    ///
    /// Such as `https://clickhouse.example.com:8443`.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_URL",
        value_name = "URL"
    )]
    pub clickhouse_url: Option<String>,
    /// PEM file of the authority of an https:// server's certificate, instead of the system's
    ///
    /// The system's authorities are those of `SSL_CERT_FILE`, where that is set.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_CA_FILE",
        value_name = "FILE"
    )]
    pub clickhouse_ca_file: Option<PathBuf>,
    /// User to insert and query as; by default `millrace` in the embedded engine, `default` in a
    /// server
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_USER",
        value_name = "NAME"
    )]
    pub clickhouse_user: Option<String>,
    /// Password of that user; by default the embedded engine's is generated at the first start
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
    ///
    /// One replica is enough if it is not set. With a quorum, exports and persons read only rows
    /// that reached it, and inserts of a table run one after the other. All nodes need the same
    /// value.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_INSERT_QUORUM",
        value_name = "REPLICAS"
    )]
    pub clickhouse_insert_quorum: Option<InsertQuorum>,
    /// Memory limit of the embedded ClickHouse
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
    /// External sources that the user of the embedded ClickHouse may access, as in `s3,url`; none
    /// by default
    ///
    /// `azure`, `file`, `hdfs`, `mongodb`, `mysql`, `postgresql`, `redis`, `remote`, `s3`,
    /// `sqlite`, `url`. Each of the network also opens the ports of this machine to whoever has the
    /// password; `file` and `sqlite` reach the folders of ClickHouse.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_CLICKHOUSE_SOURCES",
        value_delimiter = ',',
        value_name = "NAME,…"
    )]
    pub clickhouse_sources: Vec<String>,
    /// Library of the engine, if it is not where `make run` puts it
    #[arg(long, global = true, env = "MILLRACE_LIBCHDB", value_name = "FILE")]
    pub libchdb: Option<PathBuf>,
    /// Catalog: sqlite://… or postgres://…; SQLite in the data folder by default
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
    /// URL by which clients reach the ingest listener, if it is not its address
    #[arg(long, global = true, env = "MILLRACE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// URL by which clients reach the organization API; by default it is taken from their requests
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ADMIN_PUBLIC_URL",
        value_name = "URL"
    )]
    pub admin_public_url: Option<String>,
    /// Limits of the organization API
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
    /// Sender of invitations, as in `Millrace <millrace@example.com>`
    #[arg(
        long,
        global = true,
        env = "MILLRACE_MAIL_FROM",
        value_name = "ADDRESS"
    )]
    pub mail_from: Option<String>,
    /// Nameserver that verifies domains; the system's by default
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DNS_NAMESERVER",
        value_name = "ADDR"
    )]
    pub dns_nameserver: Option<String>,
    /// Folder or URL of the plugins that can be installed; a small built-in list by default
    ///
    /// The folder or URL has a `plugins.json`. A URL has no query, and redirects are not followed.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PLUGIN_CATALOGUE",
        value_name = "PLACE"
    )]
    pub plugin_catalogue: Option<String>,
    /// Base domain of the names of reverse proxies
    ///
    /// Aliases and certificates of proxies are checked, every minute at first.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_PROXY_BASE_NAME",
        default_value = "proxy.localhost",
        value_name = "DOMAIN"
    )]
    pub proxy_base_name: String,
    /// Batch exports
    #[command(flatten)]
    pub exports: ExportSettings,
    /// Persons and groups
    #[command(flatten)]
    pub persons: PersonLimits,
    /// Key that secrets of destinations are encrypted with: the base64 of 32 bytes; by default it
    /// is generated at the first start and kept in <data dir>/secret.key
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
    /// Moment at which a request is answered with success
    #[arg(
        long,
        global = true,
        env = "MILLRACE_ACK",
        default_value = "disk",
        value_name = "WHEN"
    )]
    pub ack: AckSetting,
    /// Folder of the logs, where events wait for ClickHouse; <data dir>/log by default
    #[arg(long, global = true, env = "MILLRACE_LOG_DIR", value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
    /// Disk space for the logs; 10 GiB or 80 % of the disk by default
    ///
    /// Events wait there while ClickHouse is away; when the logs are full, requests are answered
    /// 503.
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_BYTES_MAX",
        value_parser = size,
        value_name = "SIZE"
    )]
    pub log_bytes_max: Option<ByteSize>,
    /// Threads that serve requests; one per core by default
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
    /// Seconds that a shutdown goes on accepting connections while it reports not ready: as long as
    /// a load balancer takes to notice
    #[arg(
        long,
        global = true,
        env = "MILLRACE_DRAIN_SECONDS",
        default_value_t = 0,
        value_name = "N"
    )]
    pub drain_seconds: u64,
    /// Seconds that a shutdown may take after that to finish requests and ship events
    #[arg(
        long,
        global = true,
        env = "MILLRACE_GRACE_SECONDS",
        default_value_t = 10,
        value_name = "N"
    )]
    pub grace_seconds: u64,
    /// Format of log lines
    #[arg(
        long,
        global = true,
        env = "MILLRACE_LOG_FORMAT",
        default_value = "human",
        value_name = "FORMAT"
    )]
    pub log_format: LogFormat,
    /// Level of log lines, as in `info,millrace_pipeline=debug`
    ///
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`), and parts of the program with
    /// levels of their own.
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
