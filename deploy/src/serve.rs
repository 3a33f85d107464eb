//! The modes that stay: builds the parts, prints where they are, waits, drains.

use crate::admin::Admin;
use crate::background::give_way;
use crate::beside::Beside;
use crate::config::{Config, Engine};
use crate::credentials::{Banner, Credentials};
use crate::ingest::{Accepting, Ingest};
use crate::signals::Stop;
use crate::{bootstrap, clickhouse_watch, data_dir, engine, open, preflight};
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

/// Threads for everything that is not a request: shipping, lookups.
const BACKGROUND_THREADS: usize = 2;

/// Which parts run.
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
        .on_thread_start(give_way)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    // Before anything else, as a signal that nobody listens for ends the process as a crash does.
    let stop = {
        let _context = runtime.enter();
        Stop::listen()
    };
    let role = if parts.ingest { "millrace" } else { "admin" };
    // First, as who has the folder has the addresses, too.
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
        lock.leave_no_trace();
    }
    // Whatever still waits must not keep the process: what matters is on disk.
    runtime.shutdown_background();
    outcome
}

/// Starts, runs and drains.
async fn until_stopped(
    config: &Config,
    parts: Parts,
    prometheus: PrometheusHandle,
    mut stop: Stop,
) -> anyhow::Result<()> {
    let Some(up) = Up::start(config, parts, prometheus, &mut stop).await? else {
        tracing::info!("stopped before it was up");
        return Ok(());
    };
    up.until_the_end(config, async move { stop.asked().await })
        .await
}

/// `millrace serve --print-credentials`.
///
/// # Errors
/// When the file was deleted: the personal key cannot be had again.
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

/// Everything that runs.
struct Up {
    ingest: Option<Ingest>,
    beside: Beside,
    engine: Option<Supervisor>,
    /// Ends when the process does.
    _health: HealthServer,
}

/// What has to be there before anything listens.
struct Opened {
    catalog: Catalog,
    credentials: Credentials,
    is_first_start: bool,
}

impl Opened {
    async fn new(config: &Config, path: &Path) -> anyhow::Result<Self> {
        let kept = Credentials::load(path)?;
        let is_kept = kept.is_some();
        let mut credentials = kept.unwrap_or_default();
        let catalog = open::catalog_or_make(config).await?;
        let is_first_start =
            bootstrap::run(&catalog, &config.data_dir, is_kept, &mut credentials).await?;
        Ok(Self {
            catalog,
            credentials,
            is_first_start,
        })
    }
}

impl Up {
    /// `None` if it was asked to stop meanwhile; what was under way by then is finished.
    async fn start(
        config: &Config,
        parts: Parts,
        prometheus: PrometheusHandle,
        stop: &mut Stop,
    ) -> anyhow::Result<Option<Self>> {
        let path = config.credentials_path();
        let opened = tokio::select! {
            opened = Opened::new(config, &path) => opened?,
            () = stop.asked() => return Ok(None),
        };
        let Opened {
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
            // Beside ingestion it is not asked for: events come in without the API.
            if !parts.ingest {
                readiness.require("catalog", started.failure());
            }
            admin = Some(started);
        }
        if parts.ingest {
            let accepting = Accepting::start(config, keys, &catalog, &readiness, stop).await?;
            let begun = take_events(config, accepting, &mut credentials, stop).await?;
            let Some((shipping, found)) = begun else {
                if let Some(admin) = admin {
                    admin.stop().await?;
                }
                return Ok(None);
            };
            (ingest, engine) = (Some(shipping), found);
        }
        let mut up = Self {
            ingest,
            beside: Beside {
                admin,
                ..Beside::default()
            },
            engine,
            _health: health,
        };
        if let Err(error) = up.finish_start(config, &credentials, &path) {
            return Err(up.give_up(config, error).await);
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
        Ok(Some(up))
    }

    /// Ends after a start that failed, so that nobody waits for this node, unless it took something that it cannot ship.
    async fn give_up(self, config: &Config, error: anyhow::Error) -> anyhow::Error {
        match self.until_the_end(config, std::future::ready(())).await {
            Ok(()) => error,
            Err(end) => error.context(format!("{end:#}")),
        }
    }

    /// What can be done only once it is known where everything is.
    fn finish_start(
        &mut self,
        config: &Config,
        credentials: &Credentials,
        path: &Path,
    ) -> anyhow::Result<()> {
        credentials.store(path)?;
        bootstrap::done(&config.data_dir);
        self.beside.start_workers(config)
    }

    /// Waits until it is to stop or something fails, then drains.
    async fn until_the_end(
        self,
        config: &Config,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let Self {
            ingest,
            mut beside,
            engine,
            _health,
        } = self;
        let status = engine.as_ref().map(Supervisor::status);
        let hopeless = async {
            match status {
                None => std::future::pending().await,
                Some(status) => engine::hopeless(status).await,
            }
        };
        let mut failure = None;
        let stop = async {
            tokio::select! {
                () = stop => {}
                () = hopeless => {}
                error = beside.failed() => failure = Some(error),
            }
        };
        let outcome = match ingest {
            Some(ingest) => ingest.until_the_end(config, stop).await,
            None => {
                stop.await;
                Ok(())
            }
        };
        if outcome.is_err() {
            // The kernel ends the engine with us: waiting for it would keep a broken process alive.
            std::mem::forget(engine);
            return outcome;
        }
        beside.stop().await?;
        if let Some(engine) = engine {
            let reason = engine::why_hopeless(&engine);
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

/// Ships what comes in once it is known where to; `None` if it was asked to stop before.
async fn take_events(
    config: &Config,
    accepting: Option<Accepting>,
    credentials: &mut Credentials,
    stop: &mut Stop,
) -> anyhow::Result<Option<(Ingest, Option<Supervisor>)>> {
    let Some(accepting) = accepting else {
        return Ok(None);
    };
    credentials.ingest_url = public_url(config, accepting.addr());
    let grace = Duration::from_secs(config.grace_seconds);
    // Requests are answered by now.
    let found = {
        let mut starting = pin!(engine::start(config, &mut *credentials));
        let found = tokio::select! {
            found = &mut starting => found.map(Some),
            () = stop.asked() => Ok(None),
        };
        let Ok(Some(engine)) = found else {
            // So that nobody waits for this node, unless it took something. Before the engine ends, which
            // may take its time, or be cut short by whoever has no more of it.
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

/// From 50 µs to 10 s.
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
