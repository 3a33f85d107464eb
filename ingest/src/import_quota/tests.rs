//! Tests of nodes with logs of their own and one catalog: they import at the same time, are killed,
//! start again.

use super::lease_renewer::Recount;
use super::{ImportQuota, ImportRefusal, RunningImportQuota};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Actor, BootstrapOptions, Catalog, HistoricalGrant, HistoricalMigration, MigrationState,
};
use millrace_pipeline::{Ack, LogPanic, Pipeline, PipelineError, PipelineOptions, Running};
use millrace_rows::{
    Batch, EventRow, Lane, Micros, Month, ProjectId, RowGroup, RowKey, SystemClock, Table,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;

const NODES: usize = 3;
/// Time that anything may take before a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Project with an approval.
struct TestEnv {
    database: TestDatabase,
    catalog: Catalog,
    organization_id: Uuid,
    project_id: ProjectId,
    migration: Uuid,
    dir: TempDir,
}

impl TestEnv {
    async fn new(database: TestDatabase, total_events: i64) -> Self {
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = catalog.bootstrap(BootstrapOptions::default()).await;
        let made = made.unwrap().unwrap();
        let grant = HistoricalGrant {
            project_id: made.project_id,
            total_events,
            events_per_minute: 100_000_000,
            note: None,
        };
        let operator = Actor::command_line();
        let granted = catalog.grant_historical_migration(&operator, grant).await;
        Self {
            database,
            catalog,
            organization_id: made.organization_id,
            project_id: made.project_id,
            migration: granted.unwrap().id,
            dir: TempDir::new().unwrap(),
        }
    }

    async fn node(&self, number: usize) -> Node {
        self.node_with(number, Pipeline::recount_imports).await
    }

    /// Starts a node that counts the imports of its earlier starts in this way.
    async fn node_with(&self, number: usize, recount: Recount) -> Node {
        let catalog = Catalog::open(self.database.url()).await.unwrap();
        Node::start(self, catalog, number, recount).await
    }

    async fn migration(&self) -> HistoricalMigration {
        let found = self
            .catalog
            .historical_migration(self.organization_id, self.migration);
        found.await.unwrap().unwrap()
    }

    async fn until_imported(&self, events: u64) {
        let started = Instant::now();
        loop {
            let imported = self.migration().await.events_imported;
            if imported == i64::try_from(events).unwrap() {
                return;
            }
            assert!(started.elapsed() < TEST_TIMEOUT, "{imported}, not {events}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

struct Node {
    import_quota: ImportQuota,
    lease_renewer: RunningImportQuota,
    pipeline: Pipeline,
    running: Running,
    project_id: ProjectId,
    /// Events that were acknowledged since the node's start.
    stored: u64,
}

impl Node {
    async fn start(env: &TestEnv, catalog: Catalog, number: usize, recount: Recount) -> Self {
        let log_dir = env.dir.path().join(number.to_string());
        let (pipeline, running) = open_log(&log_dir).await;
        let name = format!("node {number}");
        let clock = Arc::new(SystemClock);
        let (import_quota, lease_renewer) =
            ImportQuota::start_with(catalog, pipeline.clone(), name, clock, recount);
        Self {
            import_quota,
            lease_renewer,
            pipeline,
            running,
            project_id: env.project_id,
            stored: 0,
        }
    }

    /// Imports as a request does: admitted and stored, or admitted and given up, or refused.
    async fn import(&mut self, events: u64, is_given_up: bool) -> Result<(), ImportRefusal> {
        let reservation = self.import_quota.admit(self.project_id, events).await?;
        if is_given_up {
            return Ok(());
        }
        let slot = self.pipeline.reserve(Lane::Historical, 1).unwrap();
        let batch = rows(self.project_id, events);
        slot.submit_counted(batch, reservation, drop).await.unwrap();
        self.stored += events;
        Ok(())
    }

    /// Imports, and retries as long as it is told to wait for what others hold.
    async fn import_patiently(&mut self, events: u64) -> Result<(), ImportRefusal> {
        let started = Instant::now();
        loop {
            match self.import(events, false).await {
                Err(ImportRefusal::Rate { .. } | ImportRefusal::Unavailable)
                    if started.elapsed() < TEST_TIMEOUT =>
                {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                done => return done,
            }
        }
    }

    async fn stop(self) {
        tokio::task::spawn_blocking(|| self.running.stop())
            .await
            .unwrap();
        self.lease_renewer.stop().await;
    }

    /// Ends without a report to the catalog, as a killed process does.
    async fn kill(self) {
        self.lease_renewer.abort().await;
        tokio::task::spawn_blocking(|| self.running.stop())
            .await
            .unwrap();
    }
}

/// Opens a log once the process that had it has closed it.
async fn open_log(dir: &Path) -> (Pipeline, Running) {
    let options = PipelineOptions {
        log_dir: PathBuf::from(dir),
        log_bytes_max: 1 << 30,
        segment_bytes: 1 << 20,
        queue_requests_max: 100,
        queue_bytes_max: 1 << 20,
        insert_bytes_max: PipelineOptions::INSERT_BYTES_MAX,
        ack: Ack::Disk,
    };
    let started = Instant::now();
    loop {
        match Pipeline::start(&options) {
            Err(PipelineError::Open(_)) if started.elapsed() < TEST_TIMEOUT => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            opened => return opened.unwrap(),
        }
    }
}

fn rows(project_id: ProjectId, events: u64) -> Batch {
    let row = EventRow {
        uuid: Uuid::from_u128(1),
        event: b"e",
        properties: &[b"{}"],
        timestamp: Micros(5),
        team_id: project_id,
        distinct_id: b"somebody",
        created_at: Micros(6),
        historical_migration: true,
    };
    let mut bytes = Vec::new();
    for _ in 0..events {
        row.append_to(&mut bytes);
    }
    let keys: Vec<RowKey> = vec![row.key()];
    let group = RowGroup {
        table: Table::Events,
        month: Month(197_001),
        rows: u32::try_from(events).unwrap(),
        bytes: bytes.as_slice().into(),
        keys,
    };
    Batch {
        lane: Lane::Historical,
        groups: vec![group],
    }
}

#[derive(Clone, Debug)]
enum Step {
    Import {
        node: usize,
        events: u64,
        is_given_up: bool,
    },
    Kill(usize),
    Restart(usize),
    /// Lets the nodes report to the catalog.
    Rest,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (0..NODES, 1..40_u64, prop::bool::weighted(0.2)).prop_map(
            |(node, events, is_given_up)| Step::Import { node, events, is_given_up }
        ),
        1 => (0..NODES).prop_map(Step::Kill),
        1 => (0..NODES).prop_map(Step::Restart),
        1 => Just(Step::Rest),
    ];
    prop::collection::vec(step, 5..40)
}

/// Plays the steps: what was stored is counted, never more than was approved, and at the end the
/// rest can be imported to the last event.
async fn play(database: TestDatabase, total: u64, steps: &[Step]) {
    let env = TestEnv::new(database, i64::try_from(total).unwrap()).await;
    let mut nodes = Vec::new();
    for number in 0..NODES {
        nodes.push(Some(env.node(number).await));
    }
    let mut stored = 0;
    for step in steps {
        match *step {
            Step::Import {
                node,
                events,
                is_given_up,
            } => {
                let node = nodes[node].as_mut().unwrap();
                let before = node.stored;
                let outcome = node.import(events, is_given_up).await;
                stored += node.stored - before;
                if let Err(ImportRefusal::Volume { left }) = outcome {
                    assert!(left < events, "{left} are left for {events}");
                }
            }
            Step::Kill(number) => {
                nodes[number].take().unwrap().kill().await;
                nodes[number] = Some(env.node(number).await);
            }
            Step::Restart(number) => {
                nodes[number].take().unwrap().stop().await;
                nodes[number] = Some(env.node(number).await);
            }
            Step::Rest => tokio::time::sleep(Duration::from_millis(30)).await,
        }
        assert!(stored <= total, "{stored} of {total}");
    }
    env.until_imported(stored).await;
    let last = nodes[0].as_mut().unwrap();
    let refused = last.import_patiently(total - stored + 1).await;
    assert!(
        matches!(refused, Err(ImportRefusal::Volume { .. })),
        "{refused:?}"
    );
    if total > stored {
        last.import_patiently(total - stored).await.unwrap();
    }
    env.until_imported(total).await;
    for node in nodes.into_iter().flatten() {
        node.stop().await;
    }
    assert_eq!(env.migration().await.state, MigrationState::Finished);
}

async fn play_some(database: impl AsyncFn() -> TestDatabase, games: u32) {
    let mut runner = TestRunner::new(Config::default());
    for _ in 0..games {
        let game = (1..600_u64, steps()).new_tree(&mut runner).unwrap();
        let (total, steps) = game.current();
        eprintln!("{total} events: {steps:?}");
        play(database().await, total, &steps).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_import_and_die_use_up_an_approval_exactly_on_sqlite() {
    play_some(async || TestDatabase::sqlite(), 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_import_and_die_use_up_an_approval_exactly_on_postgres() {
    play_some(async || TestDatabase::postgres().await, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_import_the_approved_events_and_not_one_more() {
    let env = TestEnv::new(TestDatabase::sqlite(), 1_000).await;
    let node = env.node(0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (import_quota, pipeline, project_id) = (
            node.import_quota.clone(),
            node.pipeline.clone(),
            node.project_id,
        );
        tasks.spawn(async move {
            let mut stored = 0;
            loop {
                match import_quota.admit(project_id, 7).await {
                    Ok(reservation) => {
                        let slot = pipeline.reserve(Lane::Historical, 1).unwrap();
                        let batch = rows(project_id, 7);
                        slot.submit_counted(batch, reservation, drop).await.unwrap();
                        stored += 7;
                    }
                    Err(ImportRefusal::Volume { .. }) => return stored,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
        });
    }
    let stored: u64 = tasks.join_all().await.iter().sum();
    assert_eq!(stored, 1_000 / 7 * 7);
    env.until_imported(stored).await;
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recount_that_panics_stops_imports_and_loses_none_of_the_count() {
    let env = TestEnv::new(TestDatabase::sqlite(), 10).await;
    let mut node = env.node(0).await;
    node.import_patiently(3).await.unwrap();
    node.kill().await;
    let panicking: Recount = |_, at| {
        let reason = "a mistake of ours".to_owned();
        Err(LogPanic { at, reason }.into())
    };
    let mut stopped = env.node_with(0, panicking).await;
    for _ in 0..2 {
        let refused = stopped.import_patiently(1).await;
        assert_eq!(refused, Err(ImportRefusal::NotCounted));
    }
    let reason = stopped.import_quota.failure().unwrap();
    for part in ["in the historical log", ".log", "a mistake of ours"] {
        assert!(reason.contains(part), "{part} is not in: {reason}");
    }
    // It goes on beside live events until it is told to stop.
    stopped.stop().await;
    let mut node = env.node(0).await;
    env.until_imported(3).await;
    node.import_patiently(7).await.unwrap();
    assert_eq!(node.import_quota.failure(), None);
    env.until_imported(10).await;
    node.stop().await;
}
