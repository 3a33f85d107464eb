//! Test environment: a catalog, and a ClickHouse with updates that arrive at two nodes.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Catalog, NodeStarts, Nodes, ProjectId, Published, UtcTime, Watermarks};
use millrace_clickhouse::{ClickHouse, Settings};
use millrace_embedded::testing::{gateway_repeating, gateway_with_page, shared};
use millrace_organizations::{BootstrapOptions, Organizations, PersonalKeys, Projects, bootstrap};
use millrace_persons::{PersonUpdate, UpdatePosition, Worker, WorkerOptions};
use millrace_rows::{Micros, PersonUpdateRow, Table, UpdateKind};
use std::time::Duration;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// 2026-01-01T00:00:00Z.
pub const NOW: i64 = 1_767_225_600_000_000;
pub const NODES: [&str; 2] = ["a", "b"];

pub struct TestEnv {
    pub catalog: Catalog,
    pub clickhouse: ClickHouse,
    pub project_id: ProjectId,
    /// A project of another organization.
    pub foreign_project_id: ProjectId,
    pub database: String,
    settings: Settings,
    url: String,
}

impl TestEnv {
    pub async fn open(database: &TestDatabase) -> Self {
        let catalog = Catalog::open(database.url()).await.unwrap();
        let made = bootstrap(&catalog, BootstrapOptions::default()).await;
        let made = made.unwrap().unwrap();
        let caller = PersonalKeys::new(&catalog)
            .authenticate(made.personal_api_key.expose())
            .await;
        let actor = caller.unwrap().unwrap().actor();
        let foreign = Organizations::new(&catalog)
            .create(&actor, "Foreign", None)
            .await;
        let foreign = Projects::new(&catalog)
            .list_all(Some(foreign.unwrap().id))
            .await;
        let name = format!("persons_{}", Uuid::new_v4().simple());
        let mut settings = Settings::new(&shared().url, &shared().user, &shared().password);
        settings.database.clone_from(&name);
        let clickhouse = ClickHouse::new(&settings);
        clickhouse.migrate().await.unwrap();
        Self {
            catalog,
            clickhouse,
            project_id: made.project_id,
            foreign_project_id: ProjectId(foreign.unwrap()[0].id),
            database: name,
            settings,
            url: database.url().to_owned(),
        }
    }

    /// Returns the same catalog with another ClickHouse, which has tables and no rows.
    pub async fn with_another_clickhouse(&self) -> Self {
        let database = format!("persons_{}", Uuid::new_v4().simple());
        let settings = Settings {
            database: database.clone(),
            ..self.settings.clone()
        };
        let clickhouse = ClickHouse::new(&settings);
        clickhouse.migrate().await.unwrap();
        Self {
            catalog: self.catalog.clone(),
            clickhouse,
            project_id: self.project_id,
            foreign_project_id: self.foreign_project_id,
            database,
            settings,
            url: self.url.clone(),
        }
    }

    /// Publishes a node's watermark: all updates that arrived before it are stored.
    pub async fn pass(&self, node: &str, at: i64) {
        let (starts, at) = (NodeStarts::default(), UtcTime(NOW + at));
        let watermarks = Some(Watermarks::of(at));
        let published = Nodes::new(&self.catalog).publish(node, &starts, watermarks);
        assert_eq!(published.await.unwrap(), Published::Done);
    }

    pub fn worker(&self, updates_max: usize) -> Worker {
        self.worker_with(options(updates_max))
    }

    pub fn worker_with(&self, options: WorkerOptions) -> Worker {
        Worker::new(self.catalog.clone(), self.clickhouse.clone(), options)
    }

    /// A worker whose ClickHouse is down, behind a gateway that answers with a page.
    pub fn worker_behind(&self, page: &'static str) -> Worker {
        let mut settings = self.settings.clone();
        settings.url = gateway_with_page(page);
        let clickhouse = ClickHouse::new(&settings);
        Worker::new(self.catalog.clone(), clickhouse, options(1_000))
    }

    /// A worker behind a gateway that answers all queries with this text as it did the first.
    pub fn worker_behind_cache(&self, text: &'static str) -> Worker {
        let mut settings = self.settings.clone();
        settings.url = gateway_repeating(&shared().url, text);
        let clickhouse = ClickHouse::new(&settings);
        Worker::new(self.catalog.clone(), clickhouse, options(1_000))
    }

    /// Starts a worker in a process of its own, which ends as if it were killed.
    pub fn start(&self, updates_max: usize) -> Process {
        let runtime = Runtime::new().unwrap();
        let (url, clickhouse) = (self.url.clone(), ClickHouse::new(&self.settings));
        runtime.spawn(async move {
            let catalog = Catalog::open(&url).await.unwrap();
            let worker = Worker::new(catalog, clickhouse, options(updates_max));
            worker.run(std::future::pending()).await.unwrap();
        });
        Process(Some(runtime))
    }

    /// Stores updates, as the log would.
    pub fn store(&self, updates: &[PersonUpdate]) {
        let mut rows = Vec::new();
        updates.iter().for_each(|update| put(&mut rows, update));
        let target = Table::PersonUpdates.insert_target();
        let into = format!("INSERT INTO `{}`.{target} FORMAT RowBinary", self.database);
        self.ask(&into, &rows);
    }

    /// Runs a statement in ClickHouse, and returns its answer.
    pub fn ask(&self, statement: &str, body: &[u8]) -> String {
        let engine = shared();
        let mut answer = ureq::post(&engine.url)
            .query("query", statement)
            .header("X-ClickHouse-User", &engine.user)
            .header("X-ClickHouse-Key", &engine.password)
            .send(body)
            .unwrap();
        answer.body_mut().read_to_string().unwrap()
    }
}

/// A process that is killed when this is dropped.
pub struct Process(Option<Runtime>);

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

pub fn options(updates_max: usize) -> WorkerOptions {
    WorkerOptions {
        updates_max,
        apply_max: Duration::from_secs(3_600),
        backlogs_max: Duration::from_secs(3_600),
        look_every: Duration::from_millis(20),
        retry_pause: Duration::from_millis(20),
        lapse_after: Duration::from_millis(400),
        ..WorkerOptions::default()
    }
}

fn put(rows: &mut Vec<u8>, update: &PersonUpdate) {
    let row = PersonUpdateRow {
        team_id: update.project_id,
        created_at: update.position.created_at,
        request_id: update.position.request_id,
        index: u32::try_from(update.position.index).unwrap(),
        uuid: update.uuid,
        timestamp: update.timestamp,
        kind: update.kind,
        distinct_id: &update.distinct_id,
        other_id: &update.other_id,
        person_set: update.person_set.as_bytes(),
        person_set_once: update.person_set_once.as_bytes(),
        person_unset: update.person_unset.as_bytes(),
        group_type: &update.group_type,
        group_key: &update.group_key,
        group_set: update.group_set.as_bytes(),
    };
    row.append_to(rows);
}

/// Update whose kind, ids and properties depend on its number. Many arrive at the same moment,
/// several in one request.
pub fn update(project_id: ProjectId, number: i64) -> PersonUpdate {
    let some = |salt: i64, count: i64| (number * salt + number / 3).rem_euclid(count);
    let kind = match some(7, 10) {
        0 => UpdateKind::Identify,
        1 => UpdateKind::Alias,
        2 => UpdateKind::Merge,
        _ => UpdateKind::Properties,
    };
    let of_group = some(11, 5) == 0;
    PersonUpdate {
        project_id,
        position: UpdatePosition {
            created_at: Micros(NOW + number / 10),
            request_id: Uuid::from_u128(u128::MAX - (number / 4) as u128),
            index: number,
        },
        uuid: Uuid::from_u128(number as u128),
        timestamp: Micros(NOW + some(13, 500)),
        kind,
        distinct_id: format!("id {}", some(17, 100)),
        other_id: match kind {
            UpdateKind::Properties => String::new(),
            _ => format!("id {}", some(17, 100) + 1),
        },
        person_set: format!("{{\"k{}\":{number}}}", some(19, 7)),
        person_set_once: format!("{{\"first\":{number}}}"),
        person_unset: format!("[\"k{}\"]", some(23, 7)),
        group_type: if of_group {
            "company".to_owned()
        } else {
            String::new()
        },
        group_key: if of_group {
            some(29, 9).to_string()
        } else {
            String::new()
        },
        group_set: if of_group {
            format!("{{\"n\":{number}}}")
        } else {
            String::new()
        },
    }
}
