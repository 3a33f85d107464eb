//! The modes that stay: builds the parts, prints where they are, waits, drains.

use crate::admin::Admin;
use crate::config::Config;
use crate::credentials::{Banner, Credentials};
use crate::{bootstrap, data_dir, engine, open, signals};
use anyhow::{Context, anyhow, bail};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_embedded::Supervisor;
use millrace_ingest::keys::Keys;
use millrace_ingest::{Deps, HealthServer, Readiness, Server, ServerConfig};
use millrace_pipeline::ship::{self, ShipOptions};
use millrace_pipeline::{Pipeline, PipelineOptions, Running};
use millrace_rows::SystemClock;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Size of a log segment, in bytes.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Requests that may wait for a commit, per lane.
const QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// Bytes of requests that may wait for a commit, per lane.
const QUEUE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// Shortest and longest wait between two tries to make the tables.
const MIGRATE_PAUSE_MIN: Duration = Duration::from_millis(50);
const MIGRATE_PAUSE_MAX: Duration = Duration::from_secs(5);
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
    let _lock = data_dir::take(
        &config.data_dir,
        if parts.ingest { "millrace" } else { "admin" },
    )?;
    let prometheus = recorder()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(BACKGROUND_THREADS)
        .thread_name("background")
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let outcome = runtime.block_on(async {
        let up = Up::start(config, parts, prometheus).await?;
        up.until_the_end(config).await
    });
    // Whatever still waits must not keep the process: what matters is on disk.
    runtime.shutdown_background();
    outcome
}

/// `millrace serve --print-credentials`.
///
/// # Errors
/// When the file was deleted: the personal key cannot be had again.
pub fn print_credentials(config: &Config) -> anyhow::Result<()> {
    let path = config.credentials_path();
    let Some(credentials) = Credentials::load(&path)? else {
        bail!(
            "{} is not there, and the personal key was kept nowhere else; `millrace keys create --user EMAIL` makes another",
            path.display()
        )
    };
    crate::print(&serde_json::to_string_pretty(&credentials)?);
    Ok(())
}

/// Everything that runs.
struct Up {
    ingest: Option<Ingest>,
    admin: Option<Admin>,
    engine: Option<Supervisor>,
    /// Ends when the process does.
    _health: HealthServer,
}

/// The ingestion half.
struct Ingest {
    server: Server,
    pipeline: Pipeline,
    running: Running,
    shippers: JoinSet<Result<(), ship::ShipError>>,
    stop_shippers: watch::Sender<bool>,
}

impl Up {
    async fn start(
        config: &Config,
        parts: Parts,
        prometheus: PrometheusHandle,
    ) -> anyhow::Result<Self> {
        let path = config.credentials_path();
        let catalog = open::catalog(config).await?;
        let mut credentials = Credentials::load(&path)?.unwrap_or_default();
        let first_start = bootstrap::run(&catalog, &path, &mut credentials).await?;
        let readiness = Readiness::new();
        let health = HealthServer::start(config.health_addr, readiness.clone(), prometheus)
            .with_context(|| cannot_listen(config.health_addr, "--health-addr"))?;
        credentials.health_url = format!("http://{}", health.addr());
        let (mut admin, mut engine, mut ingest) = (None, None, None);
        if parts.admin {
            let started = Admin::start(config)
                .with_context(|| cannot_listen(config.admin_addr, "--admin-addr"))?;
            credentials.admin_url = format!("http://{}", started.addr());
            // Beside ingestion it is not asked for: events come in without the API.
            if !parts.ingest {
                readiness.require("catalog", started.failure());
            }
            admin = Some(started);
        }
        if parts.ingest {
            let started = start_ingest(config, &catalog, &readiness)?;
            credentials.ingest_url = public_url(config, started.0.addr());
            engine = engine::start(config, &mut credentials).await?;
            ingest = Some(start_shipping(config, &credentials, started)?);
        }
        credentials.store(&path)?;
        crate::print(
            &Banner {
                credentials: &credentials,
                path: &path,
                first_start,
            }
            .to_string(),
        );
        Ok(Self {
            ingest,
            admin,
            engine,
            _health: health,
        })
    }

    /// Waits for a signal or a failure, then drains.
    async fn until_the_end(self, config: &Config) -> anyhow::Result<()> {
        let Self {
            ingest,
            mut admin,
            engine,
            _health,
        } = self;
        let outcome = match (ingest, &mut admin) {
            (Some(ingest), _) => {
                ingest
                    .until_the_end(Duration::from_secs(config.grace_seconds))
                    .await
            }
            (None, Some(admin)) => tokio::select! {
                () = signals::shutdown() => Ok(()),
                outcome = admin.ended() => outcome,
            },
            (None, None) => Ok(()),
        };
        if outcome.is_err() {
            // The kernel ends the engine with us: waiting for it would keep a broken process alive.
            std::mem::forget(engine);
            return outcome;
        }
        if let Some(admin) = admin {
            admin.stop().await?;
        }
        if let Some(engine) = engine {
            tokio::task::spawn_blocking(|| engine.stop())
                .await
                .context("the supervisor panicked")?;
        }
        tracing::info!("stopped");
        Ok(())
    }
}

impl Ingest {
    async fn until_the_end(self, grace: Duration) -> anyhow::Result<()> {
        let Self {
            server,
            pipeline,
            running,
            mut shippers,
            stop_shippers,
        } = self;
        let failed = pipeline.clone();
        let serving = server.run(async {
            signals::shutdown().await;
            tracing::info!("stopping: finishing what is in flight");
        });
        tokio::select! {
            () = serving => {}
            reason = failed.failed() => return Err(anyhow!("{reason}; start again to recover what is on disk")),
            Some(ended) = shippers.join_next() => {
                ended.context("a shipper panicked")?.context("shipping stopped")?;
                bail!("shipping stopped by itself");
            }
        }
        tokio::task::spawn_blocking(|| running.stop())
            .await
            .context("a commit thread panicked")?;
        stop_shippers.send_replace(true);
        let shipped = async { while shippers.join_next().await.is_some() {} };
        if tokio::time::timeout(grace + Duration::from_secs(5), shipped)
            .await
            .is_err()
        {
            tracing::warn!(
                "not everything was shipped in time; the rest ships after the next start"
            );
        }
        Ok(())
    }
}

fn start_ingest(
    config: &Config,
    catalog: &Catalog,
    readiness: &Readiness,
) -> anyhow::Result<(Server, Pipeline, Running)> {
    let (pipeline, running) = Pipeline::start(&PipelineOptions {
        log_dir: config.log_dir.clone(),
        log_bytes_max: config.log_bytes_max,
        segment_bytes: SEGMENT_BYTES,
        queue_requests_max: QUEUE_REQUESTS_MAX,
        queue_bytes_max: QUEUE_BYTES_MAX,
        ack: config.ack,
    })?;
    let log = pipeline.clone();
    readiness.require("log", move || log.failure());
    let keys = Keys::new(catalog.clone());
    tokio::spawn(keys.clone().watch_changes());
    let known = keys.clone();
    readiness.require("catalog", move || known.failure());
    let server_config = ServerConfig {
        workers: config.workers,
        trusted_proxies: config.trusted_proxies.clone(),
        grace: Duration::from_secs(config.grace_seconds),
        ..ServerConfig::on(config.ingest_addr)
    };
    let deps = Deps {
        keys,
        pipeline: pipeline.clone(),
        clock: Arc::new(SystemClock),
        readiness: readiness.clone(),
    };
    let server = Server::start(server_config, deps)
        .map_err(|error| anyhow!("{error}, or give another address with --ingest-addr"))?;
    Ok((server, pipeline, running))
}

fn start_shipping(
    config: &Config,
    credentials: &Credentials,
    (server, pipeline, mut running): (Server, Pipeline, Running),
) -> anyhow::Result<Ingest> {
    let mut settings = open::embedded_settings(credentials);
    if let crate::config::Engine::Server { cluster, .. } = &config.engine {
        settings.cluster.clone_from(cluster);
    }
    let clickhouse = ClickHouse::new(&settings);
    tokio::spawn(migrate(clickhouse.clone()));
    let node = data_dir::node_name(&config.data_dir)?;
    let (stop_shippers, stopped) = watch::channel(false);
    let mut shippers = JoinSet::new();
    for output in running.take_outputs() {
        report_recovery(&output);
        let poison_dir = config.data_dir.join("poison").join(output.lane.name());
        let mut options = ShipOptions::of(output.lane, &node, poison_dir);
        options.grace = Duration::from_secs(config.grace_seconds);
        let mut stopped = stopped.clone();
        let stop = async move { drop(stopped.wait_for(|stop| *stop).await) };
        shippers.spawn(ship::run(
            options,
            output,
            clickhouse.clone(),
            Arc::new(SystemClock),
            stop,
        ));
    }
    Ok(Ingest {
        server,
        pipeline,
        running,
        shippers,
        stop_shippers,
    })
}

/// Makes the tables as soon as ClickHouse answers, so that they can be queried before the first
/// event came.
async fn migrate(clickhouse: ClickHouse) {
    let mut pause = MIGRATE_PAUSE_MIN;
    while let Err(error) = clickhouse.migrate().await {
        tracing::debug!("ClickHouse is not migrated yet: {error}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MIGRATE_PAUSE_MAX);
    }
}

/// What opening a log found goes to the operator.
fn report_recovery(output: &millrace_pipeline::LaneOutput) {
    let (lane, found) = (output.lane.name(), &output.recovery);
    if found.frames > 0 {
        tracing::info!(
            lane,
            frames = found.frames,
            rows = found.rows,
            "found in the log"
        );
    }
    if let Some(cut) = &found.cut {
        tracing::info!(lane, at = %cut.position, bytes = cut.bytes, "cut an unfinished write, which was never acknowledged");
    }
    if found.is_damaged() {
        tracing::error!(
            lane,
            ?found,
            "the log is damaged; what could not be read is in its quarantine folder"
        );
    }
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

fn cannot_listen(addr: SocketAddr, flag: &str) -> String {
    format!("cannot listen on {addr}; give another address with {flag}")
}
