//! Tests of nodes with logs of their own and one catalog: they import at the same time, are killed,
//! start again.
//!
//! The catalog's clock is the test's, so leases expire when a test says so.

mod games;
mod many_projects;

use super::{ImportQuota, ImportRefusal, RunningImportQuota};
use millrace_catalog::testing::{DatabaseKind, TestDatabase};
use millrace_catalog::{Actor, Catalog, HistoricalMigration, NodeStarts, Nodes};
use millrace_organizations::{BootstrapOptions, HistoricalGrant, HistoricalMigrations, bootstrap};
use millrace_pipeline::{Ack, Pipeline, PipelineError, PipelineOptions, Running};
use millrace_rows::{
    Batch, Clock, EventRow, Lane, Micros, Month, ProjectId, RowGroup, RowKey, Table, TestClock,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use uuid::Uuid;

/// Time after which a lease has expired.
const EXPIRED_AFTER_MICROS: i64 = 21_000_000;
/// Time that anything may take before a test fails.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Project with an approval.
struct TestEnv {
    database: TestDatabase,
    clock: TestClock,
    catalog: Catalog,
    organization_id: Uuid,
    project_id: ProjectId,
    migration: Uuid,
    dir: TempDir,
}

impl TestEnv {
    async fn new(database: TestDatabase, total_events: i64) -> Self {
        let clock = TestClock::at(Micros(1_790_000_000_000_000));
        let catalog = Catalog::open_with_clock(database.url(), Arc::new(clock.clone()));
        let catalog = catalog.await.unwrap();
        // With another node running, a start ends no leases.
        let starts = NodeStarts::default();
        let other = Nodes::new(&catalog).register("elsewhere", "host", &starts);
        other.await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        let made = made.unwrap().unwrap();
        let grant = HistoricalGrant {
            project_id: made.project_id,
            total_events,
            events_per_minute: 100_000_000,
            note: None,
        };
        let operator = Actor::command_line();
        let granted = HistoricalMigrations::new(&catalog)
            .grant(&operator, grant)
            .await;
        Self {
            database,
            clock,
            catalog,
            organization_id: made.organization_id,
            project_id: made.project_id,
            migration: granted.unwrap().id,
            dir: TempDir::new().unwrap(),
        }
    }

    async fn node(&self, number: usize) -> Node {
        let catalog = Catalog::open_with_clock(self.database.url(), Arc::new(self.clock.clone()));
        Node::start(self, catalog.await.unwrap(), number).await
    }

    /// Passes so much time that all leases have expired.
    fn expire_leases(&self) {
        self.clock
            .set(Micros(self.clock.now().0 + EXPIRED_AFTER_MICROS));
    }

    async fn migration(&self) -> HistoricalMigration {
        let found =
            HistoricalMigrations::new(&self.catalog).get(self.organization_id, self.migration);
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
    async fn start(env: &TestEnv, catalog: Catalog, number: usize) -> Self {
        let log_dir = env.dir.path().join(number.to_string());
        let (pipeline, running) = open_log(&log_dir).await;
        let name = format!("node {number}");
        let clock = Arc::new(env.clock.clone());
        let (import_quota, lease_renewer) = ImportQuota::start(catalog, name, clock);
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

    /// Ends without a report to the catalog, as a killed process does; returns the events of its
    /// lease, and those that it stored and did not report.
    async fn kill(self) -> (u64, u64) {
        let leased = self.import_quota.0.project(self.project_id);
        let lease = leased.lease.lock().await;
        let lost = [
            lease.held(&leased.project),
            lease.unreported(&leased.project),
        ];
        self.lease_renewer.abort().await;
        tokio::task::spawn_blocking(|| self.running.stop())
            .await
            .unwrap();
        let [held, unreported] = lost.map(|events| u64::try_from(events).unwrap());
        (held, unreported)
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

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_import_the_approved_events_and_not_one_more() {
    let env = TestEnv::new(TestDatabase::of(DatabaseKind::Sqlite).await, 1_000).await;
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
async fn nodes_that_need_what_each_holds_give_it_back_while_requests_go_on() {
    let env = TestEnv::new(TestDatabase::sqlite(), 100).await;
    let (mut first, mut second) = (env.node(0).await, env.node(1).await);
    for node in [&mut first, &mut second] {
        // The first request is leased what it needs, the second one a stock as well.
        for events in [1, 9] {
            node.import_patiently(events).await.unwrap();
        }
    }
    let outcomes = tokio::join!(first.import_patiently(80), second.import_patiently(80));
    let outcomes = [outcomes.0, outcomes.1];
    let admitted = outcomes.iter().filter(|outcome| outcome.is_ok());
    assert_eq!(admitted.count(), 1, "{outcomes:?}");
    for node in [first, second] {
        node.stop().await;
    }
    env.until_imported(100).await;
}

#[tokio::test]
async fn nothing_is_leased_once_the_leases_have_gone_back() {
    let env = TestEnv::new(TestDatabase::sqlite(), 100).await;
    let node = env.node(0).await;
    let import_quota = node.import_quota.clone();
    node.stop().await;
    let refused = import_quota.admit(env.project_id, 1).await.err();
    assert_eq!(refused, Some(ImportRefusal::Unavailable));
}

#[tokio::test]
async fn a_project_whose_reports_fail_is_logged_once_beside_one_that_is_answered() {
    let env = TestEnv::new(TestDatabase::of(DatabaseKind::Sqlite).await, 100).await;
    let node = env.node(0).await;
    let refuse = format!(
        "CREATE TRIGGER refuse BEFORE INSERT ON import_quotas WHEN NEW.team_id = {} BEGIN \
         SELECT RAISE(ABORT, 'no'); END",
        env.project_id
    );
    env.database.execute(&refuse).await.unwrap();
    // The catalog answers that the other project is not there.
    for project_id in [env.project_id, ProjectId(env.project_id.0 + 1)] {
        let refused = node.import_quota.admit(project_id, 1).await.err();
        assert_eq!(refused, Some(ImportRefusal::Unavailable));
    }
    let renewer = &node.import_quota.0;
    assert!(renewer.forget_failures(), "the failure is remembered");
    node.stop().await;
}

/// Clock that panics once it is armed.
struct PanickingClock(Arc<AtomicBool>);

impl Clock for PanickingClock {
    fn now(&self) -> Micros {
        assert!(!self.0.load(Ordering::Acquire), "a mistake of ours");
        Micros(1)
    }
}

#[tokio::test]
async fn a_panic_of_a_renewal_is_one_of_the_request_that_waits_for_it() {
    let env = TestEnv::new(TestDatabase::sqlite(), 100).await;
    let is_armed = Arc::new(AtomicBool::default());
    let clock = Arc::new(PanickingClock(Arc::clone(&is_armed)));
    let (catalog, project_id) = (env.catalog.clone(), env.project_id);
    let (import_quota, _running) = ImportQuota::start(catalog, "node".to_owned(), clock);
    drop(import_quota.0.project(project_id));
    is_armed.store(true, Ordering::Release);
    let waiting = tokio::spawn(async move { import_quota.admit(project_id, 1).await.err() });
    assert!(waiting.await.is_err_and(|error| error.is_panic()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_forfeits_its_lease_and_its_next_start_imports_the_rest() {
    let env = TestEnv::new(TestDatabase::of(DatabaseKind::Sqlite).await, 1_000).await;
    let mut node = env.node(0).await;
    // The first request is leased what it needs, the second one a stock as well.
    for events in [1, 20] {
        node.import_patiently(events).await.unwrap();
    }
    let (held, unreported) = node.kill().await;
    assert!((1..=500).contains(&held), "{held}");
    let mut node = env.node(0).await;
    // Another node might use the lease, for all that the catalog knows.
    env.expire_leases();
    let rest = 1_000 - 21 - held;
    node.import_patiently(rest).await.unwrap();
    let refused = node.import_patiently(1).await;
    assert_eq!(refused, Err(ImportRefusal::Volume { left: 0 }));
    node.stop().await;
    env.until_imported(1_000 - held - unreported).await;
    // More can be approved.
    let grant = HistoricalGrant {
        project_id: env.project_id,
        total_events: i64::try_from(held).unwrap(),
        events_per_minute: 100_000_000,
        note: None,
    };
    let operator = Actor::command_line();
    let granted = HistoricalMigrations::new(&env.catalog).grant(&operator, grant);
    granted.await.unwrap();
    let mut node = env.node(0).await;
    node.import_patiently(held).await.unwrap();
    node.stop().await;
}
