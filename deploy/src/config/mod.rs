//! Configuration: what the user wrote, checked once.
//!
//! Every setting is a flag, a `MILLRACE_<NAME>` variable and a key of the TOML file, in falling
//! order of authority; clap knows all three, so that parsing, help and errors are the same for
//! each. [`Settings`] is what was written, [`Config`] what it means; nobody re-checks later.

mod addresses;
mod admin_limits;
mod choices;
mod engine;
mod file;
mod settings;
mod show;
mod values;

pub use choices::{AckSetting, LogFormat};
pub use engine::Engine;
pub use file::{FileError, Layers, load};
pub use settings::Settings;
pub use show::show;

use addresses::{nameserver, networks, plugin_catalogue, proxy_base_name, web_address};
use anyhow::{Context, bail};
use engine::engine_of;
use ipnet::IpNet;
use millrace_admin::mail::MailSettings;
use millrace_admin::plugin_catalogue::CatalogueSource;
use millrace_catalog::{CatalogLimits, SecretKey};
use millrace_pipeline::Ack;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;
/// How the logs' default room is bounded on small disks: percent of the disk's size.
const LOG_DISK_PERCENT_MAX: u64 = 80;
/// The logs' default room, in bytes.
const LOG_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;
/// Below this a log cannot hold two segments.
const LOG_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// More threads than any machine has use for; each has connections and memory of its own.
const WORKERS_MAX: usize = 1_024;

/// The checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Everything that is on disk, the logs aside.
    pub data_dir: PathBuf,
    /// Where clients post.
    pub ingest_addr: SocketAddr,
    /// Where administrators talk to.
    pub admin_addr: SocketAddr,
    /// Health and metrics.
    pub health_addr: SocketAddr,
    /// Where events are stored.
    pub engine: Engine,
    /// The catalog.
    pub database_url: String,
    /// The URL by which clients reach the ingest listener, when it is not its address.
    pub public_url: Option<String>,
    /// The URL by which clients reach the organization API, when it is not as they say.
    pub admin_public_url: Option<String>,
    /// Requests that a personal key may make in a minute; 0: any number.
    pub admin_requests_per_minute_max: u32,
    /// Requests that a personal key may make in an hour; 0: any number.
    pub admin_requests_per_hour_max: u32,
    /// How many times as much all keys of a user together may make; 0: any number.
    pub admin_requests_per_user_factor: u32,
    /// How long entries of the activity log are kept; `None`: for ever.
    pub activity_log_kept: Option<Duration>,
    /// When a request is answered.
    pub ack: Ack,
    /// The folder of the logs.
    pub log_dir: PathBuf,
    /// Room for the logs, in bytes.
    pub log_bytes_max: u64,
    /// Threads that take requests.
    pub workers: usize,
    /// Peers whose `X-Forwarded-For`, `-Host` and `-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a shutdown goes on taking connections, in seconds.
    pub drain_seconds: u64,
    /// How long a shutdown may take after that, in seconds.
    pub grace_seconds: u64,
    /// Where invitations are sent through; nowhere without.
    pub mail: Option<MailSettings>,
    /// The nameserver that proves domains; the system's without.
    pub dns_nameserver: Option<SocketAddr>,
    /// Where the plugins are that can be installed.
    pub plugin_catalogue: CatalogueSource,
    /// The domain below which our reverse proxies answer: punycode, lower case.
    pub proxy_base_name: String,
    /// The folder that exports to files stay in.
    pub export_root: Option<PathBuf>,
    /// How much an organization may have.
    pub limits: CatalogLimits,
    /// Batch exports that run at a time; 0: none.
    pub export_runs_max: usize,
    /// How long runs of batch exports are kept after their end; `None`: for ever.
    pub export_runs_kept: Option<Duration>,
    /// How long lines of their logs are kept; `None`: as long as the runs.
    pub export_logs_kept: Option<Duration>,
    /// How long what events say of persons is kept once it was applied, in days.
    pub person_updates_kept_days: u32,
    /// Distinct ids and groups of a project that may become known by what arrives within an hour;
    /// `None`: any number.
    pub new_distinct_ids_per_hour_max: Option<u64>,
    /// Distinct ids that a person may have to become part of another one; `None`: any number.
    pub merged_distinct_ids_max: Option<u64>,
    /// Whether exports may go to private networks.
    pub allow_private_destinations: bool,
    /// Which log lines are written.
    pub log_level: String,
    /// What secrets are encrypted with; `None`: a key of our own, in the data folder.
    pub secret_key: Option<SecretKey>,
}

impl Config {
    /// Checks what the user wrote.
    ///
    /// # Errors
    /// A sentence that names the setting and says what to do.
    pub fn build(settings: Settings) -> anyhow::Result<Self> {
        let data_dir = absolute(&settings.data_dir)?;
        let log_dir = match &settings.log_dir {
            Some(dir) => absolute(dir)?,
            None => data_dir.join("log"),
        };
        let log_bytes_max = match settings.log_bytes_max {
            Some(size) if size.as_u64() < LOG_BYTES_MIN => {
                bail!("log_bytes_max is {size}; give at least 64 MiB, as a log needs two segments")
            }
            Some(size) => size.as_u64(),
            None => default_log_bytes(&log_dir),
        };
        let database_url = database_url(&settings, &data_dir)?;
        let workers = match settings.workers {
            Some(0) => bail!("workers is 0; give at least 1, or leave it out for one per core"),
            Some(workers) if workers > WORKERS_MAX => bail!(
                "workers is {workers}; give at most {WORKERS_MAX}, or leave it out for one per core"
            ),
            Some(workers) => workers,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mail = mail(&settings)?;
        Ok(Self {
            engine: engine_of(&settings, &data_dir)?,
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
            activity_log_kept: days(settings.admin.activity_log_kept_days),
            ack: settings.ack.into(),
            log_dir,
            log_bytes_max,
            workers,
            trusted_proxies: networks(&settings.trusted_proxies)?,
            drain_seconds: settings.drain_seconds,
            grace_seconds: settings.grace_seconds,
            mail,
            dns_nameserver: nameserver(settings.dns_nameserver.as_deref())?,
            plugin_catalogue: plugin_catalogue(settings.plugin_catalogue.as_deref())?,
            proxy_base_name: proxy_base_name(&settings.proxy_base_name)?,
            export_root: settings.export_root.as_deref().map(absolute).transpose()?,
            limits: CatalogLimits {
                batch_exports_max: settings.batch_exports_max,
                plugins_max: settings.plugins_max,
            },
            export_runs_max: settings.export_runs_max,
            export_runs_kept: days(settings.export_runs_kept_days),
            export_logs_kept: days(settings.export_logs_kept_days),
            person_updates_kept_days: settings.person_updates_kept_days,
            new_distinct_ids_per_hour_max: Some(settings.new_distinct_ids_per_hour_max)
                .filter(|count_max| *count_max > 0),
            merged_distinct_ids_max: Some(settings.merged_distinct_ids_max)
                .filter(|count_max| *count_max > 0),
            allow_private_destinations: settings.allow_private_destinations,
            log_level: settings.log_level,
            secret_key: secret_key(settings.secret_key.as_deref())?,
        })
    }

    /// The file that tells local tools where everything is.
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
    let Some(url) = &settings.smtp_url else {
        return Ok(None);
    };
    let mut missing = Vec::new();
    if settings.mail_from.is_none() {
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
    let from = settings.mail_from.as_ref();
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
            bail!("secret_key cannot be used: {error}; `openssl rand -base64 32` makes one")
        }
    }
}

/// So many days; none are for ever.
fn days(count: u32) -> Option<Duration> {
    (count > 0).then(|| Duration::from_secs(u64::from(count) * DAY_SECONDS))
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot make {} absolute", path.display()))
}

/// 10 GiB, or 80 % of the disk where that is less.
fn default_log_bytes(log_dir: &Path) -> u64 {
    let existing = log_dir
        .ancestors()
        .find(|dir| dir.exists())
        .unwrap_or(Path::new("/"));
    let disk_bytes = rustix::fs::statvfs(existing)
        .map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
    LOG_BYTES_MAX_DEFAULT.min(disk_bytes / 100 * LOG_DISK_PERCENT_MAX)
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
