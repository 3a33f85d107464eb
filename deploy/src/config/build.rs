//! Checks of the settings, from which the configuration is built.

use super::addresses::{nameserver, networks, plugin_catalogue, proxy_base_name, web_address};
use super::engine::engine_of;
use super::paths::{absolute, default_log_bytes};
use super::settings::{AckSetting, IngestSettings, Settings, TraceSettings};
use super::tls::tls_files;
use super::{Config, KnownOwner, TraceConfig};
use anyhow::bail;
use millrace_admin::mail::MailSettings;
use millrace_catalog::CatalogLimits;
use millrace_exports::SecretKey;
use millrace_pipeline::Ack;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const DAY_SECONDS: u64 = 86_400;
/// Least capacity of the logs, in bytes: a log needs two segments.
const LOG_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// Most worker threads: more than any machine needs, and each takes connections and memory.
const WORKERS_MAX: usize = 1_024;

impl Config {
    /// Checks what the user wrote.
    ///
    /// # Errors
    /// A sentence that names the setting and says what to do.
    pub fn build(settings: Settings) -> anyhow::Result<Self> {
        let data_dir = absolute(&settings.data_dir)?;
        let (log_dir, log_bytes_max) = log_of(&settings.ingest, &data_dir)?;
        let database_url = database_url(&settings, &data_dir)?;
        let workers = workers(settings.ingest.workers)?;
        let mail = mail(&settings)?;
        let node_addr = settings.ingest.node_addr.as_ref();
        let node_addr = node_addr.map(|address| address.resolved("node_addr"));
        let node_addr = node_addr.transpose()?;
        let export_root = settings.exports.export_root.as_deref();
        Ok(Self {
            engine: engine_of(&settings.clickhouse, &data_dir)?,
            data_dir,
            ingest_addr: settings.ingest_addr.resolved("ingest_addr")?,
            admin_addr: settings.admin_addr.resolved("admin_addr")?,
            health_addr: settings.health_addr.resolved("health_addr")?,
            tls_files: tls_files(&settings.tls)?,
            database_url,
            row_owner: KnownOwner::default(),
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
            trusted_proxies: networks("trusted_proxies", &settings.ingest.trusted_proxies)?,
            node_addr,
            node_url: node_url(node_addr, settings.ingest.node_url)?,
            drain_seconds: settings.ingest.drain_seconds,
            grace_seconds: settings.ingest.grace_seconds,
            mail,
            dns_nameserver: nameserver(settings.admin.dns_nameserver.as_deref())?,
            plugin_catalogue: plugin_catalogue(settings.admin.plugin_catalogue.as_deref())?,
            proxy_base_name: proxy_base_name(&settings.admin.proxy_base_name)?,
            export_root: export_root.map(absolute).transpose()?,
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
            traces: traces(settings.traces)?,
            secret_key: secret_key(settings.secret_key.as_deref())?,
        })
    }
}

/// Folder of the logs and their capacity in bytes.
fn log_of(settings: &IngestSettings, data_dir: &Path) -> anyhow::Result<(PathBuf, u64)> {
    let dir = match &settings.log_dir {
        Some(dir) => absolute(dir)?,
        None => data_dir.join("log"),
    };
    let bytes_max = match settings.log_bytes_max {
        Some(size) if size.as_u64() < LOG_BYTES_MIN => {
            bail!("log_bytes_max is {size}; give at least 64 MiB, as a log needs two segments")
        }
        Some(size) => size.as_u64(),
        None => default_log_bytes(&dir),
    };
    Ok((dir, bytes_max))
}

fn workers(setting: Option<usize>) -> anyhow::Result<usize> {
    match setting {
        Some(0) => bail!("workers is 0; give at least 1, or omit it for one per core"),
        Some(workers) if workers > WORKERS_MAX => {
            bail!("workers is {workers}; give at most {WORKERS_MAX}, or omit it for one per core")
        }
        Some(workers) => Ok(workers),
        None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// URL by which other processes reach the node.
fn node_url(
    node_addr: Option<SocketAddr>,
    node_url: Option<String>,
) -> anyhow::Result<Option<String>> {
    let url = web_address("node_url", node_url)?;
    let address = match (node_addr, url) {
        (Some(_), Some(url)) => return Ok(Some(url)),
        (None, Some(_)) => bail!("node_url is set; give also node_addr, where the node listens"),
        (None, None) => return Ok(None),
        (Some(address), None) => address,
    };
    if address.ip().is_unspecified() {
        bail!("node_addr is {address}; give node_url, too, by which other machines reach it");
    }
    Ok(None)
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
            "database_url is neither of PostgreSQL nor of SQLite; give \
             postgres://<user>@<host>/<database> or sqlite://<file>?mode=rwc"
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

fn traces(settings: TraceSettings) -> anyhow::Result<Option<TraceConfig>> {
    let url = web_address("otlp_url", settings.otlp_url)?;
    Ok(url.map(|url| TraceConfig {
        url,
        ratio: settings.otlp_sampling_ratio,
    }))
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
