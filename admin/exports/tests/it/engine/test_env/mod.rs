//! Test environment: a catalog with an export to files, and a ClickHouse with rows that arrive.

mod backfills;
mod organizations;
mod pauses;
mod waiting;

use async_trait::async_trait;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Actor, BatchExport, BatchExportRun, Catalog, DestinationType, NodeStarts, Nodes, ProjectId,
    Published, UtcTime, Watermarks,
};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_embedded::testing::shared;
use millrace_exports::destination::Destinations;
use millrace_exports::engine::{
    Engine, EngineOptions, MinimumPace, Notice, Notices, OpenDestination,
};
use millrace_exports::{DestinationChange, ExportInterval, ExportPlace, NewBatchExport, SecretKey};
use millrace_organizations::{BootstrapOptions, bootstrap};
use millrace_rows::{Clock as _, Micros, TestClock};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Start of tests: 2026-01-01T00:00:00Z.
pub const NOW: Micros = Micros(1_767_225_600_000_000);
/// Length of a window, if a test has no interval of its own: five minutes.
pub const WINDOW: i64 = 300_000_000;
/// Time after which the claims of a dead process lapse.
pub const CLAIM: Duration = Duration::from_secs(2);
/// Node that rows arrive at.
const NODE: &str = "node";

pub struct TestEnv {
    pub catalog: Catalog,
    pub clock: TestClock,
    pub settings: Settings,
    url: String,
    pub project_id: ProjectId,
    pub notices: Arc<Mutex<Vec<(Notice, String)>>>,
    /// Time limit of a try.
    pub try_max: Duration,
    /// Time for which a try waits for persons.
    pub persons_wait_max: Duration,
    /// Slowest pace at which destinations may take rows.
    pub pace: MinimumPace,
    /// Longest work on a statement that finds a backfill's windows.
    pub window_search_max: Duration,
    /// Interval of new exports.
    pub interval: ExportInterval,
    key: SecretKey,
    place: ExportPlace,
    actor: Actor,
    root: tempfile::TempDir,
    database: String,
}

impl TestEnv {
    pub async fn open(database: &TestDatabase) -> Self {
        let clock = TestClock::at(NOW);
        let catalog = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
        let catalog = catalog.await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        let made = made.unwrap().unwrap();
        let name = format!("exports_{}", Uuid::new_v4().simple());
        let mut settings = Settings::new(&shared().url, &shared().user, &shared().password);
        settings.database.clone_from(&name);
        let clickhouse = ClickHouse::new(&settings);
        clickhouse.migrate().await.unwrap();
        Nodes::new(&catalog)
            .register(NODE, "host", &NodeStarts::default())
            .await
            .unwrap();
        Self {
            catalog,
            clock,
            settings,
            url: database.url().to_owned(),
            project_id: made.project_id,
            notices: Arc::default(),
            try_max: EngineOptions::DEFAULT.try_max,
            persons_wait_max: EngineOptions::DEFAULT.persons_wait_max,
            pace: EngineOptions::DEFAULT.pace,
            window_search_max: EngineOptions::DEFAULT.window_search_max,
            interval: ExportInterval::Minutes(5),
            key: SecretKey::generate().unwrap(),
            place: ExportPlace {
                organization_id: made.organization_id,
                project_id: None,
            },
            actor: Actor::system(),
            root: tempfile::tempdir().unwrap(),
            database: name,
        }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Length of a window, in microseconds.
    pub fn window_micros(&self) -> i64 {
        self.interval.micros()
    }

    /// Start of a window, in microseconds since the start of the test, which is in window 0.
    pub fn window_start(&self, number: i64) -> i64 {
        let first = self.interval.window_start(NOW.into());
        first.0 - NOW.0 + number * self.window_micros()
    }

    /// Creates an export to files.
    pub async fn export(&self, config: Value) -> BatchExport {
        let mut all = json!({"path": "out"});
        all.as_object_mut()
            .unwrap()
            .extend(config.as_object().unwrap().clone());
        self.export_to(DestinationType::FileSystem, all).await
    }

    pub async fn export_to(&self, kind: DestinationType, config: Value) -> BatchExport {
        let mut new = new_export(kind, &config);
        new.interval = self.interval.to_string();
        self.make(new).await
    }

    pub async fn make(&self, new: NewBatchExport) -> BatchExport {
        self.make_at(self.place, new).await
    }

    /// Starts a process that runs exports, with short pauses.
    pub fn start(&self) -> Process {
        self.start_through(&self.settings.url)
    }

    /// Starts a process with another URL of ClickHouse.
    pub fn start_through(&self, clickhouse_url: &str) -> Process {
        let root = Some(self.root.path().to_owned());
        let destinations = Destinations::new(self.key.clone(), true, root).unwrap();
        let open = move |export: &BatchExport| destinations.open(export);
        self.start_with(Arc::new(open), clickhouse_url)
    }

    /// Starts a process with a test's own destinations.
    pub fn start_into(&self, open: OpenDestination) -> Process {
        self.start_with(open, &self.settings.url)
    }

    fn start_with(&self, open: OpenDestination, clickhouse_url: &str) -> Process {
        let runtime = Runtime::new().unwrap();
        let notices = Arc::new(RecordedNotices(Arc::clone(&self.notices)));
        let options = EngineOptions {
            lapse_after: CLAIM,
            ask_every: Duration::from_millis(500),
            // A busy machine answers late; a long limit spares it repeated requests.
            ask_timeout: Duration::from_secs(30),
            retry_pause: Duration::from_millis(10),
            retention_every: Duration::from_millis(100),
            try_max: self.try_max,
            persons_wait_max: self.persons_wait_max,
            pace: self.pace,
            window_search_max: self.window_search_max,
            ..EngineOptions::default()
        };
        let (url, clock) = (self.url.clone(), Arc::new(self.clock.clone()));
        let mut settings = self.settings.clone();
        settings.url = clickhouse_url.to_owned();
        let clickhouse = ClickHouse::new(&settings);
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let running = runtime.spawn(async move {
            let catalog = Catalog::open_with_clock(&url, clock).await.unwrap();
            let engine = Engine::new(catalog, clickhouse, open, notices, options);
            engine.run(stopped).await.unwrap();
        });
        Process {
            runtime: Some(runtime),
            stop,
            running: Some(running),
        }
    }

    /// Stores rows: number of the event, microseconds of arrival and of the event since the start.
    pub async fn store(&self, project_id: ProjectId, rows: &[(u64, i64, i64)]) {
        let line = |(number, arrived, happened): &(u64, i64, i64)| {
            let uuid = Uuid::from_u128(u128::from(*number) << 64 | u128::from(project_id.0 as u64));
            json!({
                "uuid": uuid, "event": format!("event {}", number % 5),
                "properties": json!({"n": number}).to_string(),
                "timestamp": seconds(NOW.0 + happened), "team_id": project_id.0,
                "distinct_id": format!("person {}", number % 11),
                "created_at": seconds(NOW.0 + arrived), "historical_migration": false,
            })
            .to_string()
        };
        let lines: Vec<String> = rows.iter().map(line).collect();
        let table = format!("`{}`.events", self.database);
        self.ask(
            &format!("INSERT INTO {table} FORMAT JSONEachRow"),
            lines.join("\n"),
        );
    }

    /// Runs a statement in ClickHouse, and returns its answer.
    pub fn ask(&self, statement: &str, body: String) -> String {
        let engine = shared();
        let mut answer = ureq::post(&engine.url)
            .query("query", statement)
            .query("max_partitions_per_insert_block", "0")
            .header("X-ClickHouse-User", &engine.user)
            .header("X-ClickHouse-Key", &engine.password)
            .send(body)
            .unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    /// Empties the table of ClickHouse's boot ids, as a restart does: it lives in memory.
    pub fn forget_boot_ids(&self) {
        let sql = format!("TRUNCATE TABLE `{}`.server_runs", self.database);
        self.ask(&sql, String::new());
    }

    /// Numbers of a project's events in the table.
    pub fn stored(&self, project_id: ProjectId) -> Vec<u64> {
        let sql = format!(
            "SELECT toUInt64(JSONExtractUInt(properties, 'n')) AS n FROM `{}`.events \
             WHERE team_id = {} ORDER BY n FORMAT TSV",
            self.database, project_id.0
        );
        let answer = self.ask(&sql, String::new());
        answer.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Publishes the node's watermark: all rows that arrived before are stored.
    pub async fn pass(&self, arrived: i64) {
        let at = UtcTime(NOW.0 + arrived);
        let starts = NodeStarts::default();
        let published = Nodes::new(&self.catalog)
            .publish(NODE, &starts, Some(Watermarks::of(at)))
            .await;
        assert_eq!(published.unwrap(), Published::Done);
    }

    pub async fn runs(&self, export_id: Uuid) -> Vec<BatchExportRun> {
        self.runs_at(self.place, export_id).await
    }

    /// Advances the clock.
    pub fn pass_time(&self, micros: i64) {
        self.clock.set(Micros(self.clock.now().0 + micros));
    }

    /// All files below the root except manifests, by their paths.
    pub fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.file_name().unwrap().to_str().unwrap();
                // Unpublished files have names that begin with a dot.
                if !name.starts_with('.') && !name.ends_with("_manifest.json") {
                    let name = path.strip_prefix(self.root.path()).unwrap();
                    files.insert(
                        name.to_str().unwrap().to_owned(),
                        std::fs::read(&path).unwrap(),
                    );
                }
            }
        }
        files
    }

    /// Numbers of the events in all files, sorted.
    pub fn exported(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (name, bytes) in self.files() {
            for line in String::from_utf8(bytes).unwrap().lines() {
                let row: Value = serde_json::from_str(line).unwrap_or_else(|error| {
                    panic!("{name}: {error}: {line}");
                });
                numbers.push(row["properties"]["n"].as_u64().unwrap());
            }
        }
        numbers.sort_unstable();
        numbers
    }
}

/// New export that runs every five minutes.
pub fn new_export(kind: DestinationType, config: &Value) -> NewBatchExport {
    let destination = DestinationChange {
        kind: Some(kind),
        config: config.as_object().unwrap().clone(),
    };
    NewBatchExport {
        interval: "every 5 minutes".to_owned(),
        ..millrace_exports::testing::new_export(destination)
    }
}

fn seconds(micros: i64) -> String {
    format!(
        "{}.{:06}",
        micros.div_euclid(1_000_000),
        micros.rem_euclid(1_000_000)
    )
}

/// Process that runs exports, in a runtime of its own.
pub struct Process {
    runtime: Option<Runtime>,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Process {
    /// Kills the process.
    pub fn kill(mut self) {
        self.end();
    }

    /// Asks the process to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the process has stopped.
    pub async fn stopped(mut self) {
        self.running.take().unwrap().await.unwrap();
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Records notices to administrators.
struct RecordedNotices(Arc<Mutex<Vec<(Notice, String)>>>);

#[async_trait]
impl Notices for RecordedNotices {
    async fn tell(&self, notice: Notice, _export: &BatchExport, why: &str) {
        self.0.lock().unwrap().push((notice, why.to_owned()));
    }
}
