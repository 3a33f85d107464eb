//! Exporter process: the organization API with an engine's data.

use super::bench::Bench;
use super::engine::Engine;
use super::listener::{Listener, on_cpus};
use super::server::{FORGET_CATALOGS, sqlite_url};
use super::store::Store;
use crate::credentials::Credentials;
use crate::organization::Organization;
use crate::process::Usage;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Interval at which the status of an export is read.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Longest duration of a backfill.
const RUN_TIMEOUT: Duration = Duration::from_secs(900);

/// The process, its catalog and its export folder; all removed on drop.
#[derive(Debug)]
pub struct Exporter {
    listener: Listener,
    organization: Organization,
    catalog: PathBuf,
    root: TempDir,
    /// Key of the project.
    pub key: String,
}

/// Result of exporting all rows.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    /// Time from the request until the export was complete.
    pub took: Duration,
    /// Number of delivered rows, according to the export's runs.
    pub rows: u64,
    /// Highest resident bytes of the process during the export.
    pub rss_bytes_max: u64,
}

impl Exporter {
    /// Starts the process on the CPUs of a `taskset` list, with an empty catalog.
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(bench: &Bench<'_>, engine: &Engine, cpus: &str) -> Result<Self> {
        let (folder, root) = (bench.folder(Store::Disk)?, bench.folder(Store::Disk)?);
        let catalog = folder.path().join("exports.db");
        let clickhouse = engine.clickhouse();
        // A new engine has no such table.
        let _ = engine.execute(FORGET_CATALOGS);
        let mut command = on_cpus(cpus, &bench.options.server)?;
        command
            .args(["admin", "--log-level", "error"])
            .args(["--admin-addr", "127.0.0.1:0"])
            .args(["--health-addr", "127.0.0.1:0"])
            .args(["--admin-requests-per-minute-max", "0"])
            .args(["--admin-requests-per-hour-max", "0"])
            .args(["--clickhouse-url", &clickhouse.url])
            .args(["--clickhouse-user", &clickhouse.user])
            .env("MILLRACE_CLICKHOUSE_PASSWORD", &clickhouse.password)
            .args(["--database-url", &sqlite_url(&catalog)])
            .arg("--export-root")
            .arg(root.path())
            .arg("--data-dir")
            .arg(folder.path());
        let listener = Listener::start(command, folder).context("the organization API")?;
        let credentials = Credentials::read(&listener.folder().join("credentials.json"))?;
        Ok(Self {
            organization: Organization {
                url: credentials.admin_url,
                key: credentials.personal_api_key,
            },
            key: credentials.project_api_key,
            listener,
            catalog,
            root,
        })
    }

    /// File of the catalog, for a server that shares it.
    #[must_use]
    pub fn catalog(&self) -> &Path {
        &self.catalog
    }

    /// Exports all rows of the days before today as one Parquet file per day, by a backfill of a
    /// new export, and removes the files.
    ///
    /// # Errors
    /// The API refuses, a run fails, or it takes too long.
    pub fn export(&self, bench: &Bench<'_>) -> Result<Exported> {
        let config = json!({"path": "out", "file_format": "Parquet", "compression": "zstd"});
        let destination = json!({"type": "FileSystem", "config": config});
        let new = json!({"name": "All", "interval": "day", "destination": destination});
        let made = self.organization.ask("batch_exports/", &new)?;
        let id = text(&made, "/id").context("no id")?;
        let began = Instant::now();
        self.organization
            .ask(&format!("batch_exports/{id}/backfill/"), &json!({}))?;
        let mut rss_bytes_max = 0;
        loop {
            bench.check()?;
            let usage = Usage::of(Some(self.listener.pid()))?;
            rss_bytes_max = rss_bytes_max.max(usage.rss_bytes);
            let seen = self
                .organization
                .ask(&format!("batch_exports/{id}/backfills/"), &Value::Null)?;
            match text(&seen, "/results/0/status") {
                Some("Completed") => break,
                Some("Starting" | "Running") if began.elapsed() < RUN_TIMEOUT => {}
                status => bail!("the backfill is {status:?} after {:?}", began.elapsed()),
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        let took = began.elapsed();
        let runs = format!("batch_exports/{id}/runs/?limit=100");
        let runs = self.organization.ask(&runs, &Value::Null)?;
        let runs = runs.pointer("/results").and_then(Value::as_array);
        let delivered = |run: &Value| run.pointer("/records_completed").and_then(Value::as_u64);
        let rows = runs.context("no runs")?.iter().filter_map(delivered).sum();
        // Only the organization's folder is removed; the root stays.
        for folder in std::fs::read_dir(self.root.path()).context("no files")? {
            std::fs::remove_dir_all(folder?.path()).context("cannot remove the files")?;
        }
        self.organization
            .ask(&format!("batch_exports/{id}/pause/"), &json!({}))?;
        Ok(Exported {
            took,
            rows,
            rss_bytes_max,
        })
    }
}

fn text<'a>(answer: &'a Value, path: &str) -> Option<&'a str> {
    answer.pointer(path).and_then(Value::as_str)
}
