//! A server with everything behind it, in a directory of its own.

use crate::client::{Answer, Client};
use crate::rows::{Stored, read_rows};
use millrace_catalog::{
    Actor, Bootstrap, BootstrapOptions, Catalog, HistoricalGrant, HistoricalMigration, NewProject,
    TeamId, features,
};
use millrace_ingest::keys::Keys;
use millrace_ingest::watermark::{self, Arrivals};
use millrace_ingest::{
    Allowances, Deps, Readiness, RunningAllowances, Server, ServerConfig, StartError,
};
use millrace_log::LogHandle;
use millrace_pipeline::{Ack, LaneOutput, Pipeline, PipelineOptions, Running};
use millrace_rows::{Clock, Micros, TestClock};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use uuid::Uuid;

/// The key that the recordings were made with.
pub const KEY: &str = "phc_recording0000000000000000000000000000000";
/// The key of another project; keys differ in their last bytes, which tell projects apart in a queue.
pub const OTHER_KEY: &str = "phc_another0000000000000000000000000another";

/// What the clock shows: 2026-11-20T14:38:00Z, when the recordings were made.
pub const NOW: Micros = Micros(1_795_185_480_000_000);

/// How often the watermark advances, if nothing holds it up.
const ADVANCE_EVERY: Duration = Duration::from_millis(5);
/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub struct Stand {
    pub addr: SocketAddr,
    pub clock: TestClock,
    pub readiness: Readiness,
    pub pipeline: Pipeline,
    pub arrivals: Arrivals,
    catalog: Catalog,
    /// The project of [`KEY`].
    pub team_id: TeamId,
    organization_id: Uuid,
    watermark: watch::Receiver<Option<Micros>>,
    outputs: Vec<LaneOutput>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

/// What a test may change before the start.
pub struct Options {
    pub server: ServerConfig,
    pub pipeline: PipelineOptions,
    /// The time before which no row may be made.
    pub floor: Option<Micros>,
}

/// What comes out of the server's thread.
struct Parts {
    addr: SocketAddr,
    readiness: Readiness,
    pipeline: Pipeline,
    arrivals: Arrivals,
    catalog: Catalog,
    made: Bootstrap,
    watermark: watch::Receiver<Option<Micros>>,
    outputs: Vec<LaneOutput>,
}

impl Options {
    /// Nobody is waited for longer than this: for a head, for more of a body, for a next request.
    pub fn wait_at_most(&mut self, wait: Duration) {
        let limits = &mut self.server.limits;
        limits.header_timeout = wait;
        limits.body_stall_timeout = wait;
        limits.idle_timeout = wait;
    }
}

impl Stand {
    /// A server with the contract's limits.
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    /// A server with changes.
    pub fn with(change: impl FnOnce(&mut Options)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(dir.path());
        change(&mut options);
        Self::of(dir, options).unwrap()
    }

    /// A second server on the same address.
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
        let database = format!(
            "sqlite://{}?mode=rwc",
            dir.path().join("catalog.db").display()
        );
        let of_server = clock.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async move {
                let (server, running, allowances, parts) =
                    match started(&database, options, of_server).await {
                        Ok(started) => started,
                        Err(error) => return sender.send(Err(error)).unwrap(),
                    };
                sender.send(Ok(parts)).unwrap();
                server.run(async { drop(stopped.await) }).await;
                tokio::task::spawn_blocking(move || running.stop())
                    .await
                    .unwrap();
                allowances.stop().await;
            });
        });
        let parts: Parts = receiver.recv().unwrap()?;
        let (stop, thread) = (Some(stop), Some(thread));
        Ok(Self {
            addr: parts.addr,
            clock,
            readiness: parts.readiness,
            pipeline: parts.pipeline,
            arrivals: parts.arrivals,
            catalog: parts.catalog,
            team_id: parts.made.team_id,
            organization_id: parts.made.organization_id,
            watermark: parts.watermark,
            outputs: parts.outputs,
            stop,
            thread,
            _dir: dir,
        })
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    /// Posts JSON on a new connection.
    pub fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        self.client().post(
            target,
            &[("Content-Type", "application/json")],
            body.as_ref(),
        )
    }

    /// All rows in both logs, in order.
    pub fn rows(&self) -> Stored {
        let logs: Vec<LogHandle> = self.outputs.iter().map(|it| it.log.clone()).collect();
        read_rows(&logs)
    }

    /// Says that all that is in the logs now is in ClickHouse.
    pub fn ship(&self) {
        for output in &self.outputs {
            output.shipped.send_replace(output.log.synced());
        }
    }

    /// Lets the logs go of all that is in them.
    pub fn make_room(&self) {
        for output in &self.outputs {
            output.log.release(output.log.synced()).unwrap();
        }
    }

    /// Waits until there are so many events in the logs: for those that are not yet acknowledged.
    pub fn until_stored(&self, events: usize) {
        let started = Instant::now();
        while self.rows().events.len() < events {
            assert!(started.elapsed() < PATIENCE, "they are not stored");
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Lets the clock go on.
    pub fn pass(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.clock.set(self.clock.now().plus_micros(micros));
    }

    /// Lets the project of [`KEY`] import so much, so fast.
    pub fn grant(&self, total_events: i64, events_per_minute: i64) -> HistoricalMigration {
        let grant = HistoricalGrant {
            team_id: self.team_id,
            total_events,
            events_per_minute,
            note: None,
        };
        let operator = Actor::command_line();
        let granted = self.catalog.grant_historical_migration(&operator, grant);
        self.catalog.runtime().block_on(granted).unwrap()
    }

    /// A migration as the catalog has it now.
    pub fn migration(&self, id: Uuid) -> HistoricalMigration {
        let found = self.catalog.historical_migration(self.organization_id, id);
        let found = self.catalog.runtime().block_on(found).unwrap();
        found.unwrap()
    }

    /// Gives or takes the feature of imports.
    pub fn switch_imports(&self, on: bool) {
        let feature = vec![features::HISTORICAL_MIGRATIONS.key.to_owned()];
        let (on, off) = if on {
            (feature, vec![])
        } else {
            (vec![], feature)
        };
        let (catalog, operator) = (&self.catalog, Actor::command_line());
        let switched =
            catalog.set_organization_features(&operator, self.organization_id, &on, &off);
        catalog.runtime().block_on(switched).unwrap();
    }

    /// How far the node is.
    pub fn watermark(&self) -> Option<Micros> {
        *self.watermark.borrow()
    }

    /// Waits until the node is as far as this.
    pub fn until_watermark(&self, at: Micros) {
        let started = Instant::now();
        while self.watermark() < Some(at) {
            assert!(
                started.elapsed() < PATIENCE,
                "it stays at {:?}",
                self.watermark()
            );
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Waits until somebody waits for the requests that are under way now.
    pub fn until_next_epoch(&self) {
        let (epoch, started) = (self.arrivals.epoch(), Instant::now());
        while self.arrivals.epoch() == epoch {
            assert!(started.elapsed() < PATIENCE, "nobody looks");
            std::thread::sleep(ADVANCE_EVERY);
        }
    }

    /// Asks the server to drain; [`Stand::join`] waits for it.
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

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// A server with its catalog, its log and its watermark.
async fn started(
    database: &str,
    options: Options,
    clock: TestClock,
) -> Result<(Server, Running, RunningAllowances, Parts), StartError> {
    let (pipeline, mut running) = Pipeline::start(&options.pipeline).unwrap();
    let readiness = Readiness::new();
    let arrivals = Arrivals::new(options.floor);
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let (catalog, made) = catalog(database, Arc::clone(&clock)).await;
    let (allowances, running_allowances) = Allowances::start(
        catalog.clone(),
        pipeline.clone(),
        "node".to_owned(),
        Arc::clone(&clock),
    );
    let deps = Deps {
        keys: Keys::new(catalog.clone()),
        allowances,
        pipeline: pipeline.clone(),
        clock: Arc::clone(&clock),
        readiness: readiness.clone(),
        arrivals: arrivals.clone(),
    };
    let server = Server::start(options.server, deps)?;
    let (published, watermark) = watch::channel(None);
    tokio::spawn(watermark::advance(
        arrivals.clone(),
        pipeline.clone(),
        clock,
        options.floor,
        ADVANCE_EVERY,
        published,
    ));
    let parts = Parts {
        addr: server.addr(),
        readiness,
        pipeline,
        arrivals,
        catalog,
        made,
        watermark,
        outputs: running.take_outputs(),
    };
    Ok((server, running, running_allowances, parts))
}

/// A catalog with two projects.
async fn catalog(database: &str, clock: Arc<dyn Clock>) -> (Catalog, Bootstrap) {
    let opened = Catalog::open_with_clock(database, clock).await;
    let catalog = opened.unwrap();
    let project = BootstrapOptions {
        project_key: Some(KEY.to_owned()),
        ..BootstrapOptions::default()
    };
    let made = catalog.bootstrap(project).await.unwrap().unwrap();
    let mut other = NewProject::named("Another");
    other.key = Some(OTHER_KEY.to_owned());
    let (system, organization) = (Actor::system(), made.organization_id);
    let created = catalog.create_project(&system, organization, other);
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
            ack: Ack::Disk,
        },
        floor: None,
    }
}

/// One good event.
pub fn event(name: &str) -> serde_json::Value {
    serde_json::json!({"event": name, "distinct_id": "d", "properties": {"n": 1},
        "timestamp": "2026-11-20T14:37:59Z"})
}

/// A batch of such events.
pub fn batch(names: &[&str]) -> String {
    let events: Vec<_> = names.iter().map(|name| event(name)).collect();
    serde_json::json!({"api_key": KEY, "batch": events}).to_string()
}
