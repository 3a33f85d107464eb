//! Long-running modes: starts the parts, prints their addresses, waits, drains.

mod parts;
mod running;
mod startup;

pub use parts::Parts;

use crate::config::Config;
use crate::credentials::Credentials;
use crate::signals::StopSignal;
use crate::thread_priority::lower_priority;
use crate::{data_dir, drain_request, output, preflight, restore_mark, scraped};
use anyhow::{Context, bail};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use millrace_ingest::MetricsSource;
use millrace_tls::ServerTls;

/// Runtime threads for everything that is not a request: shipping, lookups.
const BACKGROUND_THREADS: usize = 2;

/// Runs the parts until SIGTERM or Ctrl-C; a second one cuts the stop short.
///
/// # Errors
/// When a part cannot start, or a log fails while running.
pub fn run(config: &Config, parts: Parts) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(BACKGROUND_THREADS)
        .thread_name("background")
        .on_thread_start(lower_priority)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    // Before anything else: without a listener a signal ends the process as a crash does.
    let stop = {
        let _context = runtime.enter();
        StopSignal::listen()
    };
    let role = match parts.ingest {
        true => data_dir::INGEST_ROLE,
        false => data_dir::ADMIN_ROLE,
    };
    // First, as another process on the folder has the addresses, too.
    let lock = data_dir::take_used(&config.data_dir, role)?;
    restore_mark::require_none(&config.data_dir)?;
    preflight::check(config, parts)?;
    let tls = config.tls_files.clone().map(ServerTls::load).transpose()?;
    preflight::warn_of_short_disks(config, parts);
    let lock = match lock {
        Some(lock) => lock,
        None => data_dir::take(&config.data_dir, role)?,
    };
    if parts.ingest {
        drain_request::withdraw(&config.data_dir);
        let following = drain_request::follow(config.data_dir.clone(), stop.clone());
        runtime.spawn(following);
    }
    let export_root = preflight::make_export_root(config, parts);
    let outcome = export_root.and_then(|created| {
        let ran = recorder().and_then(|metrics| {
            runtime.block_on(until_stopped(config, parts, metrics, tls, &stop))
        });
        if ran.is_err() {
            created.remove_empty();
        }
        ran
    });
    if outcome.is_err() {
        lock.remove_created_dir();
    }
    // Waiting tasks must not keep the process: what matters is on disk.
    runtime.shutdown_background();
    outcome
}

/// Starts, runs and drains.
async fn until_stopped(
    config: &Config,
    parts: Parts,
    metrics: MetricsSource,
    tls: Option<ServerTls>,
    stop: &StopSignal,
) -> anyhow::Result<()> {
    let Some(server) = startup::start(config, parts, metrics, tls, stop).await? else {
        tracing::info!("stopped before it was up");
        return Ok(());
    };
    server
        .run_until_stopped(config, stop.received(), stop.cut_short())
        .await
}

/// `millrace serve --print-credentials`.
///
/// # Errors
/// When the file was deleted: the personal key cannot be recovered.
pub fn print_credentials(config: &Config) -> anyhow::Result<()> {
    let path = config.credentials_path();
    let Some(credentials) = Credentials::load(&path)? else {
        bail!(
            "there is no {}; start the server first, or name its folder with --data-dir. A personal key that was kept \
             there is known nowhere else: `millrace keys create --user EMAIL` creates another",
            path.display()
        )
    };
    output::print_json(&serde_json::to_string_pretty(&credentials)?);
    Ok(())
}

fn recorder() -> anyhow::Result<MetricsSource> {
    let of_api = Matcher::Full("millrace_admin_request_seconds".to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
        .and_then(|builder| builder.set_buckets_for_metric(of_api, &API_SECONDS_BUCKETS))
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot start the metrics")?;
    Ok(scraped::source(recorder))
}

/// Buckets of latency histograms: from 50 µs to 10 s.
const SECONDS_BUCKETS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 10.0,
];
/// Buckets of the API's latencies, of which each operation has a histogram: from 5 ms to 30 s, when
/// most operations end.
const API_SECONDS_BUCKETS: [f64; 9] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];
