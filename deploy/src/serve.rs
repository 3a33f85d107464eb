//! Long-running modes: starts the parts, prints their addresses, waits, drains.

use crate::admin::Admin;
use crate::background_parts::BackgroundParts;
use crate::config::{Config, Engine};
use crate::credentials::{Banner, Credentials};
use crate::ingest::{AcceptingIngest, Ingest};
use crate::signals::StopSignal;
use crate::thread_priority::lower_priority;
use crate::{bootstrap, clickhouse_watch, connect, data_dir, engine, preflight};
use anyhow::{Context, anyhow, bail};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use millrace_catalog::Catalog;
use millrace_embedded::Supervisor;
use millrace_ingest::keys::Keys;
use millrace_ingest::{HealthServer, Readiness};
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

/// Runtime threads for everything that is not a request: shipping, lookups.
const BACKGROUND_THREADS: usize = 2;

/// Parts that run in this process.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// Ingestion, with its log and shippers.
    pub ingest: bool,
    /// The organization API.
    pub admin: bool,
}

impl Parts {
    /// `millrace serve`.
    pub const ALL: Self = Self {
        ingest: true,
        admin: true,
    };
    /// `millrace ingest`.
    pub const INGEST: Self = Self {
        ingest: true,
        admin: false,
    };
    /// `millrace admin`.
    pub const ADMIN: Self = Self {
        ingest: false,
        admin: true,
    };
}

/// Runs the parts until SIGTERM or Ctrl-C.
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
        false => "admin",
    };
    // First, as another process on the folder has the addresses, too.
    let lock = data_dir::take_used(&config.data_dir, role)?;
    preflight::check(config, parts)?;
    let lock = match lock {
        Some(lock) => lock,
        None => data_dir::take(&config.data_dir, role)?,
    };
    let ready = preflight::make_export_root(config, parts).and_then(|()| recorder());
    let outcome = ready
        .and_then(|prometheus| runtime.block_on(until_stopped(config, parts, prometheus, stop)));
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
    prometheus: PrometheusHandle,
    mut stop: StopSignal,
) -> anyhow::Result<()> {
    let Some(server) = RunningServer::start(config, parts, prometheus, &mut stop).await? else {
        tracing::info!("stopped before it was up");
        return Ok(());
    };
    server
        .run_until_stopped(config, async move { stop.received().await })
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
             there is known nowhere else: `millrace keys create --user EMAIL` makes another",
            path.display()
        )
    };
    crate::print_json(&serde_json::to_string_pretty(&credentials)?);
    Ok(())
}

/// All running parts.
struct RunningServer {
    ingest: Option<Ingest>,
    background_parts: BackgroundParts,
    engine: Option<Supervisor>,
    /// Kept until the process ends.
    _health: HealthServer,
}

/// Catalog and credentials, which are needed before anything listens.
struct StartupState {
    catalog: Catalog,
    credentials: Credentials,
    is_first_start: bool,
}

impl StartupState {
    async fn new(config: &Config, path: &Path) -> anyhow::Result<Self> {
        let kept = Credentials::load(path)?;
        let is_kept = kept.is_some();
        let mut credentials = kept.unwrap_or_default();
        let catalog = connect::catalog_or_create(config).await?;
        let is_first_start =
            bootstrap::run(&catalog, &config.data_dir, is_kept, &mut credentials).await?;
        Ok(Self {
            catalog,
            credentials,
            is_first_start,
        })
    }
}

impl RunningServer {
    /// Starts all parts; `None` if a stop was requested meanwhile, and then everything under way is
    /// finished.
    async fn start(
        config: &Config,
        parts: Parts,
        prometheus: PrometheusHandle,
        stop: &mut StopSignal,
    ) -> anyhow::Result<Option<Self>> {
        let path = config.credentials_path();
        let opened = tokio::select! {
            opened = StartupState::new(config, &path) => opened?,
            () = stop.received() => return Ok(None),
        };
        let StartupState {
            catalog,
            mut credentials,
            is_first_start,
        } = opened;
        let readiness = Readiness::new();
        let health = HealthServer::start(config.health_addr, readiness.clone(), prometheus)
            .with_context(|| preflight::cannot_listen(config.health_addr, "--health-addr"))?;
        credentials.health_url = format!("http://{}", health.addr());
        let (mut admin, mut engine, mut ingest) = (None, None, None);
        let keys = Keys::new(catalog.clone());
        if parts.admin {
            let here = parts.ingest.then(|| keys.clone());
            let started = Admin::start(config, here)
                .with_context(|| preflight::cannot_listen(config.admin_addr, "--admin-addr"))?;
            credentials.admin_url = format!("http://{}", started.addr());
            // Not required beside ingestion: events come in without the API.
            if !parts.ingest {
                readiness.require("catalog", started.failure());
            }
            admin = Some(started);
        }
        if parts.ingest {
            let accepting =
                AcceptingIngest::start(config, keys, &catalog, &readiness, stop).await?;
            let begun = start_ingest(config, accepting, &mut credentials, stop).await?;
            let Some((shipping, found)) = begun else {
                if let Some(admin) = admin {
                    admin.stop().await?;
                }
                return Ok(None);
            };
            (ingest, engine) = (Some(shipping), found);
        }
        let mut server = Self {
            ingest,
            background_parts: BackgroundParts {
                admin,
                ..BackgroundParts::default()
            },
            engine,
            _health: health,
        };
        if let Err(error) = server.finish_start(config, &credentials, &path) {
            return Err(server.abort_start(config, error).await);
        }
        let problem = clickhouse_watch::begin(config, parts.ingest, &readiness).await;
        let banner = Banner {
            credentials: &credentials,
            path: &path,
            shows_personal_key: is_first_start && std::io::stdout().is_terminal(),
            is_embedded: matches!(config.engine, Engine::Embedded { .. }),
            clickhouse_problem: problem.as_deref(),
        };
        crate::print(&banner.to_string());
        Ok(Some(server))
    }

    /// Drains after a failed start and deregisters the node, unless it accepted events that it
    /// cannot ship.
    async fn abort_start(self, config: &Config, error: anyhow::Error) -> anyhow::Error {
        match self.run_until_stopped(config, std::future::ready(())).await {
            Ok(()) => error,
            Err(end) => error.context(format!("{end:#}")),
        }
    }

    /// Completes a start once all addresses are known: stores the credentials, starts the workers.
    fn finish_start(
        &mut self,
        config: &Config,
        credentials: &Credentials,
        path: &Path,
    ) -> anyhow::Result<()> {
        credentials.store(path)?;
        bootstrap::finish(&config.data_dir);
        self.background_parts.start_workers(config)
    }

    /// Waits for the stop signal or a failure, then drains.
    async fn run_until_stopped(
        self,
        config: &Config,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self {
            ingest,
            mut background_parts,
            engine,
            _health,
        } = self;
        let status = engine.as_ref().map(Supervisor::status);
        let engine_failed = async {
            match status {
                None => std::future::pending().await,
                Some(status) => engine::permanent_failure(status).await,
            }
        };
        let mut failure = None;
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = engine_failed => {}
                error = background_parts.failed() => failure = Some(error),
            }
        };
        let outcome = match ingest {
            Some(ingest) => ingest.run_until_stopped(config, stop).await,
            None => {
                stop.await;
                Ok(())
            }
        };
        if outcome.is_err() {
            // The kernel ends the engine with this process: waiting for it would keep a broken
            // process alive.
            std::mem::forget(engine);
            return outcome;
        }
        background_parts.stop().await?;
        if let Some(engine) = engine {
            let reason = engine::permanent_failure_reason(&engine);
            tokio::task::spawn_blocking(|| engine.stop())
                .await
                .context("the supervisor panicked")?;
            if let Some(reason) = reason {
                return Err(anyhow!(reason));
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => {
                tracing::info!("stopped");
                Ok(())
            }
        }
    }
}

/// Starts the engine and ships to it; `None` if a stop was requested before.
async fn start_ingest(
    config: &Config,
    accepting: Option<AcceptingIngest>,
    credentials: &mut Credentials,
    stop: &mut StopSignal,
) -> anyhow::Result<Option<(Ingest, Option<Supervisor>)>> {
    let Some(accepting) = accepting else {
        return Ok(None);
    };
    credentials.ingest_url = public_url(config, accepting.addr());
    let grace = Duration::from_secs(config.grace_seconds);
    // Requests are served from here on.
    let found = {
        let mut starting = pin!(engine::start(config, &mut *credentials));
        let found = tokio::select! {
            found = &mut starting => found.map(Some),
            () = stop.received() => Ok(None),
        };
        let Ok(Some(engine)) = found else {
            // Deregisters the node, unless it accepted events. Before the engine ends, which may
            // take long, or be cut short by a supervisor out of patience.
            accepting.stop(grace).await?;
            return found.map(|_| None);
        };
        engine
    };
    Ok(Some((accepting.ship(config, credentials), found)))
}

fn recorder() -> anyhow::Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS_BUCKETS)
        .and_then(PrometheusBuilder::install_recorder)
        .context("cannot start the metrics")
}

/// Buckets of latency histograms: from 50 µs to 10 s.
const SECONDS_BUCKETS: [f64; 16] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 10.0,
];

fn public_url(config: &Config, addr: SocketAddr) -> String {
    config
        .public_url
        .clone()
        .unwrap_or_else(|| format!("http://{addr}"))
}
