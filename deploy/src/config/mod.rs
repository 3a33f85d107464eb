//! Configuration: settings as the user wrote them, checked once.
//!
//! Every setting is a flag, a `MILLRACE_<NAME>` variable and a key of the TOML file, in falling
//! order of precedence; clap knows all three, so that parsing, help and errors are the same for
//! each. [`Settings`] is the unchecked input, [`Config`] the checked result; nobody re-checks
//! later.

mod addresses;
mod build;
mod clickhouse_url;
mod engine;
mod file;
mod paths;
mod row_owner;
mod settings;
mod show;
mod tls;

pub use engine::{Engine, is_long_password};
pub use file::{FileError, Layers, load};
pub use row_owner::KnownOwner;
pub use settings::{LogFormat, LogSettings, Settings};
pub use show::{show, shown_settings};

use ipnet::IpNet;
use millrace_admin::mail::MailSettings;
use millrace_admin::plugin_catalogue::CatalogueSource;
use millrace_catalog::CatalogLimits;
use millrace_exports::SecretKey;
use millrace_persons::GrowthLimits;
use millrace_pipeline::Ack;
use millrace_tls::TlsFiles;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// The checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Folder of all data but the logs.
    pub data_dir: PathBuf,
    /// Address of the capture port.
    pub ingest_addr: SocketAddr,
    /// Address of the organization API.
    pub admin_addr: SocketAddr,
    /// Address of health checks and metrics.
    pub health_addr: SocketAddr,
    /// Files of the listeners' certificate; `None`: they speak plain HTTP.
    pub tls_files: Option<TlsFiles>,
    /// ClickHouse that stores events.
    pub engine: Engine,
    /// URL of the catalog.
    pub database_url: String,
    /// Catalog whose projects own the rows in ClickHouse, once it was opened.
    pub row_owner: KnownOwner,
    /// URL by which clients reach the ingest listener, if it is not its address.
    pub public_url: Option<String>,
    /// URL by which clients reach the organization API; by default from their requests.
    pub admin_public_url: Option<String>,
    /// Requests that a personal key may make in a minute; 0: any number.
    pub admin_requests_per_minute_max: u32,
    /// Requests that a personal key may make in an hour; 0: any number.
    pub admin_requests_per_hour_max: u32,
    /// Limit of all keys of a user together, as a multiple of the limit of one; 0: none.
    pub admin_requests_per_user_factor: u32,
    /// Limit of all members of an organization, as a multiple of the limit of one key; 0: none.
    pub admin_requests_per_organization_factor: u32,
    /// Retention of the activity log; `None`: for ever.
    pub activity_log_kept: Option<Duration>,
    /// Moment at which a request is answered.
    pub ack: Ack,
    /// Folder of the logs.
    pub log_dir: PathBuf,
    /// Capacity of the logs, in bytes.
    pub log_bytes_max: u64,
    /// Threads that serve requests.
    pub workers: usize,
    /// Peers whose `X-Forwarded-For`, `-Host` and `-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Address at which the API of other processes reads the live stream.
    pub node_addr: Option<SocketAddr>,
    /// URL by which they reach it, if it is not that address.
    pub node_url: Option<String>,
    /// Seconds that a shutdown goes on accepting connections.
    pub drain_seconds: u64,
    /// Grace period of a shutdown after that, in seconds.
    pub grace_seconds: u64,
    /// SMTP server and sender of invitations; no mail without.
    pub mail: Option<MailSettings>,
    /// Nameserver that verifies domains; the system's by default.
    pub dns_nameserver: Option<SocketAddr>,
    /// Source of the plugins that can be installed.
    pub plugin_catalogue: CatalogueSource,
    /// Base domain of reverse proxies: punycode, lower case.
    pub proxy_base_name: String,
    /// Folder that exports to files stay in.
    pub export_root: Option<PathBuf>,
    /// Limits of an organization's resources.
    pub limits: CatalogLimits,
    /// Concurrent runs of batch exports; 0: none.
    pub export_runs_max: usize,
    /// Retention of runs of batch exports after their end; `None`: for ever.
    pub export_runs_kept: Option<Duration>,
    /// Retention of log lines of runs; `None`: as long as the runs.
    pub export_logs_kept: Option<Duration>,
    /// Retention of applied person updates, in days.
    pub person_updates_kept_days: u32,
    /// Limits on what a project may add to persons and groups within an hour.
    pub person_growth: GrowthLimits,
    /// Distinct ids that a person may have to become part of another one; `None`: any number.
    pub merged_distinct_ids_max: Option<u64>,
    /// Allows exports to private networks.
    pub allow_private_destinations: bool,
    /// Filter of log lines.
    pub log_level: String,
    /// Collector of traces and the share of requests that are traced; no traces without.
    pub traces: Option<TraceConfig>,
    /// Key that encrypts secrets; `None`: a generated one, in the data folder.
    pub secret_key: Option<SecretKey>,
}

/// Collector of traces.
#[derive(Clone, Debug)]
pub struct TraceConfig {
    /// URL of the collector, without a slash at its end.
    pub url: String,
    /// Share of requests that are traced, from 0 to 1.
    pub ratio: f64,
}

impl Config {
    /// Returns true if nobody gave the logs another capacity than the default.
    #[must_use]
    pub fn has_default_log_capacity(&self) -> bool {
        self.log_bytes_max == paths::default_log_bytes(&self.log_dir)
    }

    /// Path of `credentials.json`, which has addresses and keys for local tools.
    #[must_use]
    pub fn credentials_path(&self) -> PathBuf {
        self.data_dir.join("credentials.json")
    }
}
