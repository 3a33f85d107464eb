//! Test environment: a server with everything behind it, in a directory of its own.

use crate::client::{Client, TestResponse};
use crate::rows::{Stored, read_rows};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, HistoricalMigration, ProjectId, features};
use millrace_ingest::keys::Keys;
use millrace_ingest::watermark::{self, NodeWatermarks, RequestEpochs};
use millrace_ingest::{
    Deps, ImportQuota, Readiness, RunningImportQuota, Server, ServerConfig, StartError,
};
use millrace_live::{HubOptions, LiveFeed, ShippedPositions, live};
use millrace_log::LogHandle;
use millrace_organizations::testing::set_features;
use millrace_organizations::{
    Bootstrap, BootstrapOptions, HistoricalGrant, HistoricalMigrations, NewProject, Organizations,
    Projects, bootstrap,
};
use millrace_pipeline::{Ack, LaneOutput, Pipeline, PipelineOptions, Running};
use millrace_rows::{Clock, Lane, Micros, TestClock};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

/// Key that the recordings were made with.
pub const KEY: &str = "phc_recording0000000000000000000000000000000";
/// Key of another project; keys differ in their last bytes, which tell projects apart in a queue.
pub const OTHER_KEY: &str = "phc_another0000000000000000000000000another";

/// Time of the clock: 2026-11-20T14:38:00Z, when the recordings were made.
pub const NOW: Micros = Micros(1_795_185_480_000_000);

/// Interval in which the watermark advances, if nothing holds it up.
const ADVANCE_EVERY: Duration = Duration::from_millis(5);
/// Time that anything may take before a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Running server.
pub struct TestEnv {
    pub addr: SocketAddr,
    pub clock: TestClock,
    pub readiness: Readiness,
    pub pipeline: Pipeline,
    pub request_epochs: RequestEpochs,
    pub live: LiveFeed,
    catalog: Catalog,
    /// Project of [`KEY`].
    pub project_id: ProjectId,
    organization_id: Uuid,
    watermarks: watch::Receiver<NodeWatermarks>,
    outputs: Vec<LaneOutput>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

/// Options that a test may change before the start.
pub struct Options {
    pub server: ServerConfig,
    pub pipeline: PipelineOptions,
    /// Time before which no row may be made.
    pub min_created_at: Option<Micros>,
}

/// Handles that the server's thread hands out.
struct Parts {
    addr: SocketAddr,
    readiness: Readiness,
    pipeline: Pipeline,
    request_epochs: RequestEpochs,
    live: LiveFeed,
    catalog: Catalog,
    made: Bootstrap,
    watermarks: watch::Receiver<NodeWatermarks>,
    outputs: Vec<LaneOutput>,
}

impl Options {
    /// Waits for no client longer than this: for a head, for more of a body, for a next request,
    /// for it to read.
    pub fn wait_at_most(&mut self, wait: Duration) {
        let limits = &mut self.server.limits;
        limits.header_timeout = wait;
        limits.body_stall_timeout = wait;
        limits.write_timeout = wait;
        limits.idle_timeout = wait;
    }
}

impl TestEnv {
    /// Starts a server with the contract's limits.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// Starts a server with changed options.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        Self::of(dir, options).unwrap()
    }

    /// Starts a second server on the same address.
    pub fn rival(&self) -> Result<Self, StartError> {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        options.server.addr = self.addr;
        Self::of(dir, options)
    }

    fn of(dir: tempfile::TempDir, options: Options) -> Result<Self, StartError> {
        let clock = TestClock::at(NOW);
        let (stop, stopped) = oneshot::channel();
        let (sender, receiver) = sync_channel(1);
        let file = dir.path().join("catalog.db");
        let of_server = clock.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                TestDatabase::write_sqlite(&file).await;
                let database = format!("sqlite://{}", file.display());
                let (server, running, import_quota, parts) =
                    match started(&database, options, of_server).await {
                        Ok(started) => started,
                        Err(error) => return sender.send(Err(error)).unwrap(),
                    };
                sender.send(Ok(parts)).unwrap();
                let stopped = async { drop(stopped.await) };
                let run = server.run(stopped, std::future::pending());
                run.await.unwrap();
                tokio::task::spawn_blocking(move || running.stop())
                    .await
                    .unwrap();
                import_quota.stop().await;
            });
        });
        let parts: Parts = receiver.recv().unwrap()?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self {
            addr: parts.addr,
            clock,
            readiness: parts.readiness,
            pipeline: parts.pipeline,
            request_epochs: parts.request_epochs,
            live: parts.live,
            catalog: parts.catalog,
            project_id: parts.made.project_id,
            organization_id: parts.made.organization_id,
            watermarks: parts.watermarks,
            outputs: parts.outputs,
            stop,
            thread,
            _dir: dir,
        })
    }

    /// Opens a connection.
    pub fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    /// Posts JSON on a new connection.
    pub fn post(&self, target: &str, body: impl AsRef<[u8]>) -> TestResponse {
        self.client().post(
            target,
            &[("Content-Type", "application/json")],
            body.as_ref(),
        )
    }

    /// Reads all rows in both logs, in order.
    pub fn rows(&self) -> Stored {
        let logs: Vec<LogHandle> = self.outputs.iter().map(|it| it.log.clone()).collect();
        read_rows(&logs)
    }

    /// Marks all that is in the logs now as shipped to ClickHouse.
    pub fn ship(&self) {
        for output in &self.outputs {
            output.shipped.send_replace(output.log.synced());
        }
    }

    /// Marks the person updates in the logs now as shipped to ClickHouse.
    pub fn ship_updates(&self) {
        for output in &self.outputs {
            output.updates_shipped.send_replace(output.log.synced());
        }
    }

    /// Releases all that is in the logs.
    pub fn release_logs(&self) {
        for output in &self.outputs {
            output.log.release(output.log.synced()).unwrap();
        }
    }

    /// Waits until there are so many events in the logs: for requests that are not acknowledged
    /// yet.
    pub fn until_stored(&self, events: usize) {
        let started = Instant::now();
        while self.rows().events.len() < events {
            assert!(started.elapsed() < TEST_TIMEOUT, "they are not stored");
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Advances the clock.
    pub fn pass(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.clock.set(self.clock.now().plus_micros(micros));
    }

    /// Grants the project of [`KEY`] an import of so many events, at this rate.
    pub fn grant(&self, total_events: i64, events_per_minute: i64) -> HistoricalMigration {
        let grant = HistoricalGrant {
            project_id: self.project_id,
            total_events,
            events_per_minute,
            note: None,
        };
        let operator = Actor::command_line();
        let granted = HistoricalMigrations::new(&self.catalog).grant(&operator, grant);
        self.catalog.runtime().block_on(granted).unwrap()
    }

    /// Creates another organization; returns the key of its project.
    pub fn other_organization(&self) -> String {
        let (catalog, system) = (&self.catalog, Actor::system());
        let created = async {
            let other = Organizations::new(catalog)
                .create(&system, "Another", None)
                .await;
            let projects = Projects::new(catalog)
                .list_all(Some(other.unwrap().id))
                .await;
            projects.unwrap().remove(0).api_token.unwrap()
        };
        catalog.runtime().block_on(created)
    }

    /// Reads a migration from the catalog.
    pub fn migration(&self, id: Uuid) -> HistoricalMigration {
        let found = HistoricalMigrations::new(&self.catalog).get(self.organization_id, id);
        let found = self.catalog.runtime().block_on(found).unwrap();
        found.unwrap()
    }

    /// Adds or removes the feature of imports.
    pub fn switch_imports(&self, on: bool) {
        let feature = vec![features::HISTORICAL_MIGRATIONS.key.to_owned()];
        let (on, off) = if on {
            (feature, vec![])
        } else {
            (vec![], feature)
        };
        let (catalog, operator) = (&self.catalog, Actor::command_line());
        let switched = set_features(catalog, &operator, self.organization_id, &on, &off);
        catalog.runtime().block_on(switched).unwrap();
    }

    /// Watermark of the node.
    pub fn watermark(&self) -> Option<Micros> {
        self.watermarks.borrow().all()
    }

    /// Watermark of the node's person updates.
    pub fn updates_watermark(&self) -> Option<Micros> {
        self.watermarks.borrow().updates()
    }

    /// Waits until the watermark of person updates reaches this time.
    pub fn until_updates_watermark(&self, at: Micros) {
        let started = Instant::now();
        while self.updates_watermark() < Some(at) {
            assert!(started.elapsed() < TEST_TIMEOUT, "they do not pass");
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Waits until the watermark reaches this time.
    pub fn until_watermark(&self, at: Micros) {
        let started = Instant::now();
        while self.watermark() < Some(at) {
            assert!(
                started.elapsed() < TEST_TIMEOUT,
                "it stays at {:?}",
                self.watermark()
            );
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Number of the present epoch.
    pub fn epoch(&self) -> u64 {
        self.request_epochs.epoch()
    }

    /// Waits until an epoch is no longer the present one, so that its requests are waited for.
    pub fn until_epoch_after(&self, epoch: u64) {
        let started = Instant::now();
        while self.epoch() == epoch {
            assert!(started.elapsed() < TEST_TIMEOUT, "nobody looks");
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Asks the server to drain; [`TestEnv::join`] waits for it.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end of the drain.
    pub fn join(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// Starts a server with its catalog, its log and its watermark.
async fn started(
    database: &str,
    options: Options,
    clock: TestClock,
) -> Result<(Server, Running, RunningImportQuota, Parts), StartError> {
    let (pipeline, mut running) = Pipeline::start(&options.pipeline).unwrap();
    let readiness = Readiness::new();
    let request_epochs = RequestEpochs::new(options.min_created_at);
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let (catalog, made) = catalog(database, Arc::clone(&clock)).await;
    let (import_quota, running_import_quota) =
        ImportQuota::start(catalog.clone(), "node".to_owned(), Arc::clone(&clock));
    let (tap, feed, hub) = live();
    let hub_options = HubOptions {
        node: "node".to_owned(),
        shipped: ShippedPositions {
            live: pipeline.shipped(Lane::Live),
            historical: pipeline.shipped(Lane::Historical),
        },
        clock: Arc::clone(&clock),
        on_thread: || {},
    };
    hub.start(hub_options).unwrap();
    let deps = Deps {
        keys: Keys::new(catalog.clone()),
        import_quota,
        pipeline: pipeline.clone(),
        clock: Arc::clone(&clock),
        readiness: readiness.clone(),
        request_epochs: request_epochs.clone(),
        live: tap,
    };
    let server = Server::start(options.server, deps)?;
    let (published, watermarks) = watch::channel(NodeWatermarks::default());
    tokio::spawn(watermark::advance(
        request_epochs.clone(),
        pipeline.clone(),
        clock,
        options.min_created_at,
        ADVANCE_EVERY,
        published,
    ));
    let parts = Parts {
        addr: server.addr(),
        readiness,
        pipeline,
        request_epochs,
        live: feed,
        catalog,
        made,
        watermarks,
        outputs: running.take_outputs(),
    };
    Ok((server, running, running_import_quota, parts))
}

/// Makes a catalog with two projects.
async fn catalog(database: &str, clock: Arc<dyn Clock>) -> (Catalog, Bootstrap) {
    let opened = Catalog::open_with_clock(database, clock).await;
    let catalog = opened.unwrap();
    let project = BootstrapOptions {
        project_key: Some(KEY.to_owned()),
        ..BootstrapOptions::default()
    };
    let made = bootstrap(&catalog, project).await.unwrap().unwrap();
    let mut other = NewProject::named("Another");
    other.key = Some(OTHER_KEY.to_owned());
    let (system, organization) = (Actor::system(), made.organization_id);
    let created = Projects::new(&catalog).create(&system, organization, other);
    created.await.unwrap();
    (catalog, made)
}

fn options(dir: &Path) -> Options {
    let mut server = ServerConfig::on(SocketAddr::from(([127, 0, 0, 1], 0)));
    server.workers = 2;
    server.grace = Duration::from_secs(10);
    Options {
        server,
        pipeline: PipelineOptions {
            log_dir: dir.join("log"),
            log_bytes_max: 1 << 30,
            segment_bytes: 4 << 20,
            queue_requests_max: 1_000,
            queue_bytes_max: 256 << 20,
            insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
            ack: Ack::Disk,
        },
        min_created_at: None,
    }
}

/// Builds a valid event.
pub fn event(name: &str) -> serde_json::Value {
    serde_json::json!({"event": name, "distinct_id": "d", "properties": {"n": 1},
        "timestamp": "2026-11-20T14:37:59Z"})
}

/// Builds a batch of such events.
pub fn batch(names: &[&str]) -> String {
    let events: Vec<_> = names.iter().map(|name| event(name)).collect();
    serde_json::json!({"api_key": KEY, "batch": events}).to_string()
}
