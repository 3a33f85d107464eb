//! Configuration: settings as the user wrote them, checked once.
//!
//! Every setting is a flag, a `MILLRACE_<NAME>` variable and a key of the TOML file, in falling
//! order of precedence; clap knows all three, so that parsing, help and errors are the same for
//! each. [`Settings`] is the unchecked input, [`Config`] the checked result; nobody re-checks
//! later.

mod addresses;
mod engine;
mod file;
mod paths;
mod settings;
mod show;

pub use engine::Engine;
pub use file::{FileError, Layers, load};
pub use settings::{AckSetting, LogFormat, Settings};
pub use show::show;

use addresses::{nameserver, networks, plugin_catalogue, proxy_base_name, web_address};
use anyhow::bail;
use engine::engine_of;
use ipnet::IpNet;
use millrace_admin::mail::MailSettings;
use millrace_admin::plugin_catalogue::CatalogueSource;
use millrace_catalog::{CatalogLimits, GrowthLimits, SecretKey};
use millrace_pipeline::Ack;
use paths::{absolute, default_log_bytes};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;
/// Least capacity of the logs, in bytes: a log needs two segments.
const LOG_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// Most worker threads: more than any machine needs, and each takes connections and memory.
const WORKERS_MAX: usize = 1_024;

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
    /// ClickHouse that stores events.
    pub engine: Engine,
    /// URL of the catalog.
    pub database_url: String,
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
    /// Key that encrypts secrets; `None`: a generated one, in the data folder.
    pub secret_key: Option<SecretKey>,
}

impl Config {
    /// Checks what the user wrote.
    ///
    /// # Errors
    /// A sentence that names the setting and says what to do.
    pub fn build(settings: Settings) -> anyhow::Result<Self> {
        let data_dir = absolute(&settings.data_dir)?;
        let log_dir = match &settings.ingest.log_dir {
            Some(dir) => absolute(dir)?,
            None => data_dir.join("log"),
        };
        let log_bytes_max = match settings.ingest.log_bytes_max {
            Some(size) if size.as_u64() < LOG_BYTES_MIN => {
                bail!("log_bytes_max is {size}; give at least 64 MiB, as a log needs two segments")
            }
            Some(size) => size.as_u64(),
            None => default_log_bytes(&log_dir),
        };
        let database_url = database_url(&settings, &data_dir)?;
        let workers = match settings.ingest.workers {
            Some(0) => bail!("workers is 0; give at least 1, or omit it for one per core"),
            Some(workers) if workers > WORKERS_MAX => bail!(
                "workers is {workers}; give at most {WORKERS_MAX}, or omit it for one per core"
            ),
            Some(workers) => workers,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mail = mail(&settings)?;
        Ok(Self {
            engine: engine_of(&settings.clickhouse, &data_dir)?,
            data_dir,
            ingest_addr: settings.ingest_addr,
            admin_addr: settings.admin_addr,
            health_addr: settings.health_addr,
            database_url,
            public_url: web_address("public_url", settings.public_url)?,
            admin_public_url: web_address("admin_public_url", settings.admin_public_url)?,
            admin_requests_per_minute_max: settings.admin.admin_requests_per_minute_max,
            admin_requests_per_hour_max: settings.admin.admin_requests_per_hour_max,
            admin_requests_per_user_factor: settings.admin.admin_requests_per_user_factor,
            admin_requests_per_organization_factor: settings
                .admin
                .admin_requests_per_organization_factor,
            activity_log_kept: days(settings.admin.activity_log_kept_days),
            ack: settings.ingest.ack.into(),
            log_dir,
            log_bytes_max,
            workers,
            trusted_proxies: networks(&settings.ingest.trusted_proxies)?,
            drain_seconds: settings.ingest.drain_seconds,
            grace_seconds: settings.ingest.grace_seconds,
            mail,
            dns_nameserver: nameserver(settings.admin.dns_nameserver.as_deref())?,
            plugin_catalogue: plugin_catalogue(settings.admin.plugin_catalogue.as_deref())?,
            proxy_base_name: proxy_base_name(&settings.admin.proxy_base_name)?,
            export_root: settings
                .exports
                .export_root
                .as_deref()
                .map(absolute)
                .transpose()?,
            limits: CatalogLimits {
                batch_exports_max: settings.exports.batch_exports_max,
                plugins_max: settings.admin.plugins_max,
            },
            export_runs_max: settings.exports.export_runs_max,
            export_runs_kept: days(settings.exports.export_runs_kept_days),
            export_logs_kept: days(settings.exports.export_logs_kept_days),
            person_updates_kept_days: settings.persons.person_updates_kept_days,
            person_growth: settings.persons.growth(),
            merged_distinct_ids_max: Some(settings.persons.merged_distinct_ids_max)
                .filter(|count_max| *count_max > 0),
            allow_private_destinations: settings.exports.allow_private_destinations,
            log_level: settings.logging.log_level,
            secret_key: secret_key(settings.secret_key.as_deref())?,
        })
    }

    /// Path of `credentials.json`, which has addresses and keys for local tools.
    #[must_use]
    pub fn credentials_path(&self) -> PathBuf {
        self.data_dir.join("credentials.json")
    }
}

fn database_url(settings: &Settings, data_dir: &Path) -> anyhow::Result<String> {
    let Some(url) = &settings.database_url else {
        let file = data_dir.join("catalog.db");
        return Ok(format!("sqlite://{}?mode=rwc", file.display()));
    };
    let schemes = ["sqlite:", "postgres://", "postgresql://"];
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        // The URL may hold a password, so it is not repeated.
        bail!(
            "database_url is of no kind we know; give postgres://<user>@<host>/<database> or sqlite://<file>?mode=rwc"
        );
    }
    Ok(url.clone())
}

fn mail(settings: &Settings) -> anyhow::Result<Option<MailSettings>> {
    let Some(url) = &settings.admin.smtp_url else {
        return Ok(None);
    };
    let mut missing = Vec::new();
    if settings.admin.mail_from.is_none() {
        missing.push(
            "mail_from, the address that mails come from, such as Millrace <millrace@example.com>",
        );
    }
    if settings.admin_public_url.is_none() {
        missing.push(
            "admin_public_url, where people reach the organization API, such as \
             https://millrace.example.com: links in mails lead there",
        );
    }
    let from = settings.admin.mail_from.as_ref();
    let mail = from.map(|from| MailSettings::new(url, from, None));
    match mail.transpose()? {
        Some(mail) if missing.is_empty() => Ok(Some(mail)),
        _ => bail!("smtp_url is set; give also {}", missing.join("; and ")),
    }
}

fn secret_key(text: Option<&str>) -> anyhow::Result<Option<SecretKey>> {
    let Some(text) = text else { return Ok(None) };
    match SecretKey::parse(text) {
        Ok(key) => Ok(Some(key)),
        // The text may be a key with a slip in it, so it is not repeated.
        Err(error) => {
            bail!("secret_key cannot be used: {error}; `openssl rand -base64 32` prints one")
        }
    }
}

/// Duration of so many days; `None` for 0.
fn days(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(u64::from(count) * DAY_SECONDS))
}

impl From<AckSetting> for Ack {
    fn from(setting: AckSetting) -> Self {
        match setting {
            AckSetting::Disk => Self::Disk,
            AckSetting::Clickhouse => Self::ClickHouse,
            AckSetting::Memory => Self::Memory,
        }
    }
}
