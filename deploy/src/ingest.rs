//! Ingestion as a part of the process: the listener with its log, and the shippers.

use crate::backlog_hold;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::property_columns;
use crate::signals::StopSignal;
use crate::thread_priority::lower_priority;
use crate::{capacity, connect, data_dir, ingest_logs, node_registration};
use anyhow::{Context, anyhow, bail};
use millrace_catalog::Catalog;
use millrace_clickhouse::ClickHouse;
use millrace_ingest::keys::Keys;
use millrace_ingest::watermark::RunningNode;
use millrace_ingest::{
    Deps, ImportQuota, Readiness, RunningImportQuota, Server, ServerConfig, StartupListener,
};
use millrace_live::{HubOptions, LiveHub, LiveTap, ShippedPositions};
use millrace_pipeline::ship::{self, FilledColumns, ShipOptions};
use millrace_pipeline::{Pipeline, Running};
use millrace_rows::{Lane, SystemClock};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

/// Time that shippers have after the grace period to store their checkpoints.
pub const LAST_CHECKPOINT_TIME: Duration = Duration::from_secs(1);
/// Shortest time that the node has to deregister, also when the grace period is over.
pub const DEREGISTER_TIME_MIN: Duration = Duration::from_secs(1);
/// Time that each step of a stop has for its end once the stop is cut short.
const CUT_STEP_TIME: Duration = Duration::from_secs(1);
/// Shortest and longest pause between two attempts to create the tables.
const MIGRATE_PAUSE_MIN: Duration = Duration::from_millis(50);
const MIGRATE_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Ingestion that accepts events and logs them; its shippers have not started yet.
pub struct AcceptingIngest {
    server: Server,
    pipeline: Pipeline,
    running: Running,
    import_quota: RunningImportQuota,
    /// Task that notices changed and revoked keys.
    key_watcher: JoinHandle<()>,
    node: RunningNode,
    node_name: String,
    /// Property columns that the catalog has.
    filled_columns: FilledColumns,
    /// Has `true` once the shippers may start, if they have to wait.
    hold: Option<watch::Receiver<bool>>,
}

/// Running ingestion, with its shippers.
pub struct Ingest {
    server: Server,
    pipeline: Pipeline,
    running: Running,
    import_quota: RunningImportQuota,
    /// Task that notices changed and revoked keys.
    key_watcher: JoinHandle<()>,
    node: RunningNode,
    shippers: JoinSet<Result<(), ship::ShipError>>,
    /// Rest of the grace period; set when the shippers have to stop.
    stop_shippers: watch::Sender<Option<Duration>>,
}

impl AcceptingIngest {
    /// Listens, opens the log, registers the node, so that exports wait for it, and accepts events.
    /// Clients that connect earlier are asked to retry. Waits while the catalog cannot register the
    /// node; `None` if a stop was requested meanwhile.
    ///
    /// # Errors
    /// When the log cannot be opened, or the address is busy.
    pub async fn start(
        config: &Config,
        keys: Keys,
        catalog: &Catalog,
        readiness: &Readiness,
        (tap, hub): (LiveTap, LiveHub),
        stop: &StopSignal,
    ) -> anyhow::Result<Option<Self>> {
        let early = StartupListener::start(config.ingest_addr, config.workers)
            .map_err(|error| anyhow!("{error}, or give another address with --ingest-addr"))?;
        let begun = ingest_logs::require(readiness);
        let (pipeline, running) = tokio::select! {
            opened = ingest_logs::open(config) => opened?,
            // Reading is cut off as by a crash, which does no harm.
            () = stop.received() => return Ok(None),
        };
        capacity::watch(config, pipeline.clone());
        let key_watcher = tokio::spawn(keys.clone().watch_changes());
        let known = keys.clone();
        readiness.require("catalog", move || known.failure());
        data_dir::rename_former_folders(&config.data_dir)?;
        let node_name = data_dir::node_name(&config.data_dir)?;
        // Before the first request, as exports could otherwise miss its events.
        let registered =
            node_registration::register(catalog, &config.data_dir, &node_name, stop).await;
        let Ok(Some((node, hold))) = registered else {
            let is_empty = pipeline.is_all_shipped();
            finish_commits(running).await?;
            if is_empty && registered.is_ok() {
                node_registration::withdraw(catalog, &node_name).await;
            }
            return registered.map(|_| None);
        };
        if let Err(error) = hub.start(hub_options(&node_name, &pipeline)) {
            tracing::warn!(%error, "nobody can watch the events of this node");
        }
        let request_epochs = node.request_epochs();
        let node = node.run(pipeline.clone(), Arc::new(SystemClock));
        let clock = Arc::new(SystemClock);
        let (import_quota, running_import_quota) =
            ImportQuota::start(catalog.clone(), node_name.clone(), clock);
        let deps = Deps {
            keys,
            import_quota,
            pipeline: pipeline.clone(),
            clock: Arc::new(SystemClock),
            readiness: readiness.clone(),
            request_epochs,
            live: tap,
        };
        let server = match Server::start_after(early, server_config(config), deps).await {
            Ok(server) => server,
            Err(error) => {
                node.stop(DEREGISTER_TIME_MIN).await;
                bail!("{error}")
            }
        };
        // Set once only, so this never fails.
        let _ = begun.set(pipeline.clone());
        Ok(Some(Self {
            server,
            pipeline,
            running,
            import_quota: running_import_quota,
            key_watcher,
            node,
            node_name,
            filled_columns: property_columns::followed(catalog),
            hold: hold.begin(catalog.clone()),
        }))
    }

    /// Address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// Stops before any shipping: requests under way are answered, unless that is cut short, and
    /// the next start ships their events.
    ///
    /// # Errors
    /// When a worker or a commit thread panicked.
    pub async fn stop(self, grace: Duration, cut_short: &CancellationToken) -> anyhow::Result<()> {
        let at_once = std::future::ready(());
        let served = self.server.run(at_once, cut_short.cancelled()).await;
        finish_commits(self.running).await?;
        unless_cut(cut_short, self.import_quota.stop()).await;
        let deregistered = self.node.stop(grace.max(DEREGISTER_TIME_MIN));
        unless_cut(cut_short, deregistered).await;
        served.context("ingestion failed")
    }

    /// Starts the shippers, to the configured ClickHouse or the one of the credentials.
    pub fn ship(self, config: &Config, credentials: &Credentials) -> Ingest {
        let Self {
            server,
            pipeline,
            mut running,
            import_quota,
            key_watcher,
            node,
            node_name,
            filled_columns,
            hold,
        } = self;
        let settings = connect::configured_settings(config)
            .unwrap_or_else(|| connect::embedded_settings(config, credentials));
        let clickhouse = ClickHouse::new(&settings);
        tokio::spawn(migrate(clickhouse.clone()));
        let (stop_shippers, stopped) = watch::channel(None);
        let mut shippers = JoinSet::new();
        for output in running.take_outputs() {
            ingest_logs::report_recovery(&output);
            let dead_letters_dir = config.data_dir.join(data_dir::DEAD_LETTERS);
            let dead_letters_dir = dead_letters_dir.join(output.lane.name());
            let mut options = ShipOptions::of(output.lane, &node_name, dead_letters_dir);
            options.filled_columns = filled_columns.clone();
            if settings.insert_quorum.is_some() {
                // ClickHouse rejects inserts while another one of the table waits for its quorum.
                options.limits.in_flight_max = 1;
            }
            let mut stopped = stopped.clone();
            let stop = async move {
                let left = stopped.wait_for(Option::is_some).await;
                left.map_or(Duration::ZERO, |left| left.unwrap_or_default())
            };
            let (clickhouse, hold) = (clickhouse.clone(), hold.clone());
            shippers.spawn(async move {
                let mut stop = Box::pin(stop);
                tokio::select! {
                    released = backlog_hold::released(hold) => released?,
                    _ = &mut stop => return Ok(()),
                }
                ship::run(options, output, clickhouse, Arc::new(SystemClock), stop).await
            });
        }
        Ingest {
            server,
            pipeline,
            running,
            import_quota,
            key_watcher,
            node,
            shippers,
            stop_shippers,
        }
    }
}

impl Ingest {
    /// Serves until the stop signal or a failure, then drains.
    ///
    /// # Errors
    /// When a log, a shipper or a background task fails: unnoticed, its failure would last for
    /// ever. The node is not deregistered then: exports wait for the events that its log may have.
    /// When a worker fails, once the others have drained and what was committed is shipped.
    pub async fn run_until_stopped(
        self,
        config: &Config,
        stop: impl Future<Output = ()>,
        cut_short: &CancellationToken,
    ) -> anyhow::Result<()> {
        let grace = Duration::from_secs(config.grace_seconds);
        let drain = Duration::from_secs(config.drain_seconds);
        let Self {
            server,
            pipeline,
            running,
            mut import_quota,
            mut key_watcher,
            mut node,
            mut shippers,
            stop_shippers,
        } = self;
        let failed = pipeline.clone();
        let (asked, mut stopping) = oneshot::channel();
        let stop = async move {
            stop.await;
            tracing::info!("stopping: finishing what is in flight");
            // The receiver below lives as long.
            let _ = asked.send(Instant::now());
        };
        let serving = server.run(stop, cut_short.cancelled());
        let served = tokio::select! {
            served = serving => served,
            reason = failed.failed() => return Err(anyhow!("{reason}; start again to recover what is on disk")),
            reason = import_quota.failed() => bail!("{reason}"),
            reason = node.failed() => bail!("{reason}"),
            ended = &mut key_watcher => {
                ended.context("the task that notices changed keys panicked")?;
                bail!("the task that notices changed keys ended by itself");
            }
            Some(ended) = shippers.join_next() => {
                ended.context("a shipper panicked")?.context("shipping stopped")?;
                bail!("shipping stopped by itself");
            }
        };
        finish_commits(running).await?;
        unless_cut(cut_short, import_quota.stop()).await;
        // Connections and shipping share the grace period.
        let passed = stopping.try_recv().map_or(Duration::ZERO, |at: Instant| {
            at.elapsed().saturating_sub(drain)
        });
        let left = match cut_short.is_cancelled() {
            true => Duration::ZERO,
            false => grace.saturating_sub(passed),
        };
        let end = Instant::now() + left;
        stop_shippers.send_replace(Some(left));
        let shipped = async { while shippers.join_next().await.is_some() {} };
        let shipped = tokio::time::timeout(left + LAST_CHECKPOINT_TIME, shipped);
        if !matches!(unless_cut(cut_short, shipped).await, Some(Ok(()))) {
            tracing::warn!(
                "not everything was shipped in time; the rest ships after the next start"
            );
        }
        let left = end.saturating_duration_since(Instant::now());
        let deregistered = node.stop(left.max(DEREGISTER_TIME_MIN));
        unless_cut(cut_short, deregistered).await;
        served.context("ingestion failed")
    }
}

fn hub_options(node_name: &str, pipeline: &Pipeline) -> HubOptions {
    HubOptions {
        node: node_name.to_owned(),
        shipped: ShippedPositions {
            live: pipeline.shipped(Lane::Live),
            historical: pipeline.shipped(Lane::Historical),
        },
        clock: Arc::new(SystemClock),
        on_thread: lower_priority,
    }
}

fn server_config(config: &Config) -> ServerConfig {
    ServerConfig {
        workers: config.workers,
        trusted_proxies: config.trusted_proxies.clone(),
        drain: Duration::from_secs(config.drain_seconds),
        grace: Duration::from_secs(config.grace_seconds),
        on_offload_thread: lower_priority,
        ..ServerConfig::on(config.ingest_addr)
    }
}

/// Waits for a step of a stop; `None` if it has not ended soon after the stop was cut short. Then
/// it is left as a crash leaves it.
async fn unless_cut<T>(cut_short: &CancellationToken, step: impl Future<Output = T>) -> Option<T> {
    let cut = async {
        cut_short.cancelled().await;
        tokio::time::sleep(CUT_STEP_TIME).await;
    };
    tokio::select! {
        done = step => Some(done),
        () = cut => None,
    }
}

/// Waits until all submitted requests are on disk.
async fn finish_commits(running: Running) -> anyhow::Result<()> {
    let stopped = tokio::task::spawn_blocking(|| running.stop()).await;
    stopped.context("a commit thread panicked")
}

/// Creates the tables as soon as ClickHouse answers, so that they can be queried before the first
/// event.
async fn migrate(clickhouse: ClickHouse) {
    let mut pause = MIGRATE_PAUSE_MIN;
    while let Err(error) = clickhouse.migrate().await {
        tracing::debug!("ClickHouse is not migrated yet: {error}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MIGRATE_PAUSE_MAX);
    }
}
