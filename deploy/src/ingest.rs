//! Ingestion as a part of the process: the listener with its log, and the shippers.

use crate::config::Config;
use crate::credentials::Credentials;
use crate::signals::Stop;
use crate::{data_dir, open, register, room};
use anyhow::{Context, anyhow, bail};
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_ingest::keys::Keys;
use millrace_ingest::watermark::RunningNode;
use millrace_ingest::{
    Allowances, Deps, EarlyListener, Readiness, RunningAllowances, Server, ServerConfig,
};
use millrace_pipeline::ship::{self, ShipOptions};
use millrace_pipeline::{Pipeline, PipelineOptions, Running};
use millrace_rows::SystemClock;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

/// Size of a log segment, in bytes.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// Requests that may wait for a commit, per lane.
const QUEUE_REQUESTS_MAX: usize = 16 * 1024;
/// Bytes of requests that may wait for a commit, per lane.
const QUEUE_BYTES_MAX: usize = 512 * 1024 * 1024;
/// How long shipping may take, when the grace period is over, to note what it has done.
const LAST_NOTES_TIME: Duration = Duration::from_secs(1);
/// How long the catalog may take to hear that this node has ended, when the grace period is over.
const DEREGISTER_TIME_MIN: Duration = Duration::from_secs(1);
/// Shortest and longest wait between two tries to make the tables.
const MIGRATE_PAUSE_MIN: Duration = Duration::from_millis(50);
const MIGRATE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// What takes events and writes them down; where they go from there is not known yet.
pub struct Accepting {
    server: Server,
    pipeline: Pipeline,
    running: Running,
    allowances: RunningAllowances,
    node: RunningNode,
    node_name: String,
}

/// Ingestion that runs.
pub struct Ingest {
    server: Server,
    pipeline: Pipeline,
    running: Running,
    allowances: RunningAllowances,
    node: RunningNode,
    shippers: JoinSet<Result<(), ship::ShipError>>,
    /// Set to what is left of the grace period.
    stop_shippers: watch::Sender<Option<Duration>>,
}

impl Accepting {
    /// Listens, opens the log, has this node counted among those that exports wait for, and takes events.
    /// Whoever connects before is told to come again.
    ///
    /// # Errors
    /// When the log cannot be opened, or the address is busy. While the catalog cannot note the node
    /// it waits; `None` if it was asked to stop meanwhile.
    pub async fn start(
        config: &Config,
        keys: Keys,
        catalog: &Catalog,
        readiness: &Readiness,
        stop: &mut Stop,
    ) -> anyhow::Result<Option<Self>> {
        let early = EarlyListener::start(config.ingest_addr, config.workers)
            .map_err(|error| anyhow!("{error}, or give another address with --ingest-addr"))?;
        let begun = Arc::new(OnceLock::<Pipeline>::new());
        let log = Arc::clone(&begun);
        readiness.require("log", move || match log.get() {
            Some(pipeline) => pipeline.failure(),
            None => Some("no events are taken yet, as the log is still being read".to_owned()),
        });
        let opened = tokio::select! {
            opened = open_logs(config) => opened?,
            // Reading it is given up as by a crash, which does no harm.
            () = stop.asked() => return Ok(None),
        };
        let (pipeline, running) = opened;
        room::watch(config, pipeline.clone());
        tokio::spawn(keys.clone().watch_changes());
        let known = keys.clone();
        readiness.require("catalog", move || known.failure());
        let node_name = data_dir::node_name(&config.data_dir)?;
        // Before the first request, as exports could otherwise pass what it brings.
        let registered = register::register(catalog, &config.data_dir, &node_name, stop).await;
        let Ok(Some(node)) = registered else {
            let is_empty = pipeline.is_all_shipped();
            finish_commits(running).await?;
            if is_empty && registered.is_ok() {
                register::forget_tries(catalog, &node_name).await;
            }
            return registered.map(|_| None);
        };
        let arrivals = node.arrivals();
        let node = node.run(pipeline.clone(), Arc::new(SystemClock));
        let (allowances, running_allowances) = Allowances::start(
            catalog.clone(),
            pipeline.clone(),
            node_name.clone(),
            Arc::new(SystemClock),
        );
        let deps = Deps {
            keys,
            allowances,
            pipeline: pipeline.clone(),
            clock: Arc::new(SystemClock),
            readiness: readiness.clone(),
            arrivals,
        };
        let server = match Server::start_after(early, server_config(config), deps).await {
            Ok(server) => server,
            Err(error) => {
                node.stop(DEREGISTER_TIME_MIN).await;
                bail!("{error}")
            }
        };
        // Once only, so nobody was before.
        let _ = begun.set(pipeline.clone());
        Ok(Some(Self {
            server,
            pipeline,
            running,
            allowances: running_allowances,
            node,
            node_name,
        }))
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Ends before it is known where events go: whoever sent some is answered, and the next start ships
    /// them.
    ///
    /// # Errors
    /// When a commit thread panicked.
    pub async fn stop(self, grace: Duration) -> anyhow::Result<()> {
        self.server.run(std::future::ready(())).await;
        finish_commits(self.running).await?;
        self.allowances.stop().await;
        self.node.stop(grace.max(DEREGISTER_TIME_MIN)).await;
        Ok(())
    }

    /// Starts the shippers to the ClickHouse that the credentials name.
    pub fn ship(self, config: &Config, credentials: &Credentials) -> Ingest {
        let Self {
            server,
            pipeline,
            mut running,
            allowances,
            node,
            node_name,
        } = self;
        let settings = open::configured_settings(config)
            .unwrap_or_else(|| open::embedded_settings(credentials));
        let clickhouse = ClickHouse::new(&settings);
        tokio::spawn(migrate(clickhouse.clone()));
        let (stop_shippers, stopped) = watch::channel(None);
        let mut shippers = JoinSet::new();
        for output in running.take_outputs() {
            report_recovery(&output);
            let poison_dir = config.data_dir.join("poison").join(output.lane.name());
            let mut options = ShipOptions::of(output.lane, &node_name, poison_dir);
            if settings.insert_quorum.is_some() {
                // ClickHouse refuses what comes while another insert of the table waits for its quorum.
                options.limits.in_flight_max = 1;
            }
            let mut stopped = stopped.clone();
            let stop = async move {
                let left = stopped.wait_for(Option::is_some).await;
                left.map_or(Duration::ZERO, |left| left.unwrap_or_default())
            };
            shippers.spawn(ship::run(
                options,
                output,
                clickhouse.clone(),
                Arc::new(SystemClock),
                stop,
            ));
        }
        Ingest {
            server,
            pipeline,
            running,
            allowances,
            node,
            shippers,
            stop_shippers,
        }
    }
}

impl Ingest {
    /// Serves until it is to stop or fails, then drains.
    ///
    /// # Errors
    /// When a log, a shipper or a task beside them fails: what nobody notices would last for ever. Then no leave is taken of the catalog: exports wait for what this
    /// node's log may have.
    pub async fn until_the_end(
        self,
        config: &Config,
        stop: impl Future<Output = ()>,
    ) -> anyhow::Result<()> {
        let grace = Duration::from_secs(config.grace_seconds);
        let drain = Duration::from_secs(config.drain_seconds);
        let Self {
            server,
            pipeline,
            running,
            mut allowances,
            mut node,
            mut shippers,
            stop_shippers,
        } = self;
        let failed = pipeline.clone();
        let (asked, mut stopping) = oneshot::channel();
        let serving = server.run(async move {
            stop.await;
            tracing::info!("stopping: finishing what is in flight");
            // Heard below, which lives as long.
            let _ = asked.send(Instant::now());
        });
        tokio::select! {
            () = serving => {}
            reason = failed.failed() => return Err(anyhow!("{reason}; start again to recover what is on disk")),
            reason = allowances.failed() => bail!("{reason}"),
            reason = node.failed() => bail!("{reason}"),
            Some(ended) = shippers.join_next() => {
                ended.context("a shipper panicked")?.context("shipping stopped")?;
                bail!("shipping stopped by itself");
            }
        }
        finish_commits(running).await?;
        allowances.stop().await;
        // Connections and shipping share the grace period.
        let passed = stopping.try_recv().map_or(Duration::ZERO, |at: Instant| {
            at.elapsed().saturating_sub(drain)
        });
        let left = grace.saturating_sub(passed);
        let end = Instant::now() + left;
        stop_shippers.send_replace(Some(left));
        let shipped = async { while shippers.join_next().await.is_some() {} };
        if tokio::time::timeout(left + LAST_NOTES_TIME, shipped)
            .await
            .is_err()
        {
            tracing::warn!(
                "not everything was shipped in time; the rest ships after the next start"
            );
        }
        let left = end.saturating_duration_since(Instant::now());
        node.stop(left.max(DEREGISTER_TIME_MIN)).await;
        Ok(())
    }
}

/// Reads both lanes' logs, on a thread that may take its time over them. It is made by this one and not a background
/// thread of the runtime, as the commit threads have the priority of whoever makes them.
async fn open_logs(config: &Config) -> anyhow::Result<(Pipeline, Running)> {
    let options = PipelineOptions {
        log_dir: config.log_dir.clone(),
        log_bytes_max: config.log_bytes_max,
        segment_bytes: SEGMENT_BYTES,
        queue_requests_max: QUEUE_REQUESTS_MAX,
        queue_bytes_max: QUEUE_BYTES_MAX,
        ack: config.ack,
    };
    let (opened, opening) = oneshot::channel();
    std::thread::Builder::new()
        .name("log-open".to_owned())
        .spawn(move || {
            // Nobody waits for it any more if the process is to stop.
            let _ = opened.send(Pipeline::start(&options));
        })
        .context("the thread that reads the logs cannot be started")?;
    let opened = opening.await.context("reading the logs panicked")?;
    opened.with_context(|| {
        format!(
            "cannot use the logs in {}; check that they belong to this user and their disk can be \
             written, or give another folder with --log-dir",
            config.log_dir.display()
        )
    })
}

fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        workers: config.workers,
        trusted_proxies: config.trusted_proxies.clone(),
        drain: Duration::from_secs(config.drain_seconds),
        grace: Duration::from_secs(config.grace_seconds),
        ..ServerConfig::on(config.ingest_addr)
    }
}

/// Waits until all that was handed over is on disk.
async fn finish_commits(running: Running) -> anyhow::Result<()> {
    let stopped = tokio::task::spawn_blocking(|| running.stop()).await;
    stopped.context("a commit thread panicked")
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
    // Always, so that there is a 0 to see.
    metrics::counter!("millrace_log_damaged_total", "lane" => lane).increment(found.damages());
    if found.is_damaged() {
        tracing::error!(
            lane,
            ?found,
            "the log is damaged; what could not be read is in its quarantine folder"
        );
    }
}
