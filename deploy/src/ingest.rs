//! Ingestion as a part of the process: the listener with its log, and the shippers.

use crate::config::Config;
use crate::credentials::Credentials;
use crate::signals::Stop;
use crate::{data_dir, open, room};
use anyhow::{Context, anyhow, bail};
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_ingest::keys::Keys;
use millrace_ingest::watermark::{Node, RunningNode};
use millrace_ingest::{Allowances, Deps, Readiness, RunningAllowances, Server, ServerConfig};
use millrace_pipeline::ship::{self, ShipOptions};
use millrace_pipeline::{Pipeline, PipelineOptions, Running};
use millrace_rows::SystemClock;
use std::net::SocketAddr;
use std::sync::Arc;
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
/// How long to wait before the catalog is asked again to note this node.
const REGISTER_PAUSE: Duration = Duration::from_secs(1);
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
    /// Opens the log, has this node counted among those that exports wait for, and listens.
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
        let (pipeline, running) = Pipeline::start(&PipelineOptions {
            log_dir: config.log_dir.clone(),
            log_bytes_max: config.log_bytes_max,
            segment_bytes: SEGMENT_BYTES,
            queue_requests_max: QUEUE_REQUESTS_MAX,
            queue_bytes_max: QUEUE_BYTES_MAX,
            ack: config.ack,
        })
        .with_context(|| {
            format!(
                "cannot use the logs in {}; check that they belong to this user and their disk can be \
                 written, or give another folder with --log-dir",
                config.log_dir.display()
            )
        })?;
        room::watch(config, pipeline.clone());
        let log = pipeline.clone();
        readiness.require("log", move || log.failure());
        tokio::spawn(keys.clone().watch_changes());
        let known = keys.clone();
        readiness.require("catalog", move || known.failure());
        let node_name = data_dir::node_name(&config.data_dir)?;
        // Before the first request, as exports could otherwise pass what it brings.
        let Some(node) = register(catalog, &node_name, stop).await else {
            let is_empty = pipeline.is_all_shipped();
            finish_commits(running).await?;
            if is_empty {
                forget_tries(catalog, &node_name).await;
            }
            return Ok(None);
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
        let server = match Server::start(server_config(config), deps) {
            Ok(server) => server,
            Err(error) => {
                node.stop(DEREGISTER_TIME_MIN).await;
                bail!("{error}, or give another address with --ingest-addr")
            }
        };
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
            let options = ShipOptions::of(output.lane, &node_name, poison_dir);
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
    /// When a log or a shipper fails. Then no leave is taken of the catalog: exports wait for what this
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
            allowances,
            node,
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

fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        workers: config.workers,
        trusted_proxies: config.trusted_proxies.clone(),
        drain: Duration::from_secs(config.drain_seconds),
        grace: Duration::from_secs(config.grace_seconds),
        ..ServerConfig::on(config.ingest_addr)
    }
}

/// Has the catalog count this node, as soon as it can; `None` if it was asked to stop before. It is
/// asked between tries only: one that is given up might count the node all the same.
async fn register(catalog: &Catalog, name: &str, stop: &mut Stop) -> Option<Node> {
    loop {
        match Node::register(catalog.clone(), name.to_owned(), host_name()).await {
            Ok(node) => return Some(node),
            Err(error) => tracing::error!(
                "no events are taken until the catalog has noted that this node takes them: {error}"
            ),
        }
        tokio::select! {
            () = tokio::time::sleep(REGISTER_PAUSE) => {}
            () = stop.asked() => return None,
        }
    }
}

/// Takes back what a try to register may have left that failed after all. Nobody is told if that
/// fails, too: the catalog is known to be away.
async fn forget_tries(catalog: &Catalog, name: &str) {
    let left = catalog.take_back_ingest_node(name);
    let _ = tokio::time::timeout(DEREGISTER_TIME_MIN, left).await;
}

/// This machine, for people who look at a list of nodes; empty where it cannot be told.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
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
