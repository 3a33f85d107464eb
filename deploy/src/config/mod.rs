//! Configuration: what the user wrote, checked once.
//!
//! Every setting is a flag, a `MILLRACE_<NAME>` variable and a key of the TOML file, in falling
//! order of authority; clap knows all three, so that parsing, help and errors are the same for
//! each. [`Settings`] is what was written, [`Config`] what it means; nobody re-checks later.

mod addresses;
mod file;
mod settings;
mod show;
mod values;

pub use file::{FileError, Layers, load};
pub use settings::{AckSetting, LogFormat, Settings};
pub use show::show;

use addresses::{nameserver, networks, plugin_catalogue, proxy_base_name, web_address};
use anyhow::{Context, bail};
use ipnet::IpNet;
use millrace_admin::mail::MailSettings;
use millrace_admin::plugin_catalogue::CatalogueSource;
use millrace_catalog::SecretKey;
use millrace_clickhouse::Tls;
use millrace_pipeline::Ack;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

const DAY_SECONDS: u64 = 86_400;
/// How the logs' default room is bounded on small disks: percent of the disk's size.
const LOG_DISK_PERCENT_MAX: u64 = 80;
/// The logs' default room, in bytes.
const LOG_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;
/// Below this a log cannot hold two segments.
const LOG_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Below this the embedded ClickHouse has no room for its caches and one insert.
const CLICKHOUSE_BYTES_MIN: u64 = 256 * 1024 * 1024;

/// Where events are stored.
#[derive(Clone, Debug)]
pub enum Engine {
    /// Our own child process.
    Embedded {
        /// The address it listens on; port 0 picks one.
        listen: SocketAddr,
        /// `libchdb.so`, when the user names it.
        library: Option<PathBuf>,
        /// The most memory it takes, in bytes.
        memory_bytes_max: u64,
        /// The user to insert and query as.
        user: String,
        /// That user's password; made at the first start when there is none.
        password: Option<String>,
    },
    /// A server or cluster that is there already.
    Server {
        /// Its HTTP interface.
        url: String,
        /// Authorities that may vouch for it, where the URL begins with `https://`.
        tls: Option<Tls>,
        /// The user to insert as.
        user: String,
        /// The user's password.
        password: String,
        /// The cluster to create tables on.
        cluster: Option<String>,
    },
}

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
    /// Batch exports that run at a time; 0: none.
    pub export_runs_max: usize,
    /// How long runs of batch exports are kept after their end; `None`: for ever.
    pub export_runs_kept: Option<Duration>,
    /// How long lines of their logs are kept; `None`: as long as the runs.
    pub export_logs_kept: Option<Duration>,
    /// How long what events say of persons is kept once it was applied, in days.
    pub person_updates_kept_days: u32,
    /// Whether exports may go to private networks.
    pub allow_private_destinations: bool,
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
            Some(workers) => workers,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let mail = mail(&settings)?;
        Ok(Self {
            engine: engine_of(&settings)?,
            data_dir,
            ingest_addr: settings.ingest_addr,
            admin_addr: settings.admin_addr,
            health_addr: settings.health_addr,
            database_url,
            public_url: web_address("public_url", settings.public_url)?,
            admin_public_url: web_address("admin_public_url", settings.admin_public_url)?,
            admin_requests_per_minute_max: settings.admin_requests_per_minute_max,
            admin_requests_per_hour_max: settings.admin_requests_per_hour_max,
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
            export_runs_max: settings.export_runs_max,
            export_runs_kept: days(settings.export_runs_kept_days),
            export_logs_kept: days(settings.export_logs_kept_days),
            person_updates_kept_days: settings.person_updates_kept_days,
            allow_private_destinations: settings.allow_private_destinations,
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

fn engine_of(settings: &Settings) -> anyhow::Result<Engine> {
    let Some(url) = &settings.clickhouse_url else {
        must_make_sense(settings)?;
        return Ok(Engine::Embedded {
            listen: settings.clickhouse_addr,
            library: settings.libchdb.clone(),
            memory_bytes_max: settings.clickhouse_memory.as_u64(),
            user: settings
                .clickhouse_user
                .clone()
                .unwrap_or_else(|| "millrace".to_owned()),
            password: settings.clickhouse_password.clone(),
        });
    };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        bail!("clickhouse_url is {url:?}; give its HTTP interface, such as http://clickhouse:8123");
    }
    // What else may be in it is not printed: it is where passwords would be.
    let parsed = Url::parse(url).context(
        "clickhouse_url is no URL; give its HTTP interface, such as http://clickhouse:8123",
    )?;
    if !parsed.username().is_empty() || parsed.password().is_some() {
        bail!(
            "clickhouse_url has a user or a password in it; give them as clickhouse_user and clickhouse_password"
        );
    }
    if parsed.query().is_some() || parsed.fragment().is_some() {
        bail!("clickhouse_url has something behind its path; leave out what follows ? or #");
    }
    Ok(Engine::Server {
        url: url.trim_end_matches('/').to_owned(),
        tls: tls_of(url, settings.clickhouse_ca_file.as_deref())?,
        user: settings
            .clickhouse_user
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        password: settings.clickhouse_password.clone().unwrap_or_default(),
        cluster: settings.clickhouse_cluster.clone(),
    })
}

/// Checks what is said of the embedded ClickHouse.
fn must_make_sense(settings: &Settings) -> anyhow::Result<()> {
    let memory = settings.clickhouse_memory;
    if memory.as_u64() < CLICKHOUSE_BYTES_MIN {
        bail!("clickhouse_memory is {memory}; give at least 256 MiB, such as 2GiB");
    }
    if settings.clickhouse_password.as_deref() == Some("") {
        bail!("clickhouse_password is empty; leave it out, and the first start makes one");
    }
    if settings.clickhouse_ca_file.is_some() {
        bail!("clickhouse_ca_file is set and clickhouse_url is not; unset it");
    }
    if let Some(cluster) = &settings.clickhouse_cluster {
        bail!(
            "clickhouse_cluster is {cluster:?}, and the embedded ClickHouse is none; give the server of \
             that cluster with clickhouse_url"
        );
    }
    Ok(())
}

/// Reads the authorities, once: others need a restart.
fn tls_of(url: &str, ca_file: Option<&Path>) -> anyhow::Result<Option<Tls>> {
    match (url.starts_with("https://"), ca_file) {
        (false, None) => Ok(None),
        (false, Some(_)) => bail!(
            "clickhouse_ca_file is set and clickhouse_url begins with http://; begin it with https://, or unset the file"
        ),
        (true, Some(file)) => Tls::trusting(ca_file).map(Some).with_context(|| {
            format!(
                "clickhouse_ca_file is {}; give a PEM file with the certificate of the authority that vouches for ClickHouse",
                file.display()
            )
        }),
        (true, None) => Tls::trusting(None).map(Some).context(
            "clickhouse_url begins with https://; install the system's ca-certificates, or name a PEM file with the authority in clickhouse_ca_file",
        ),
    }
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
