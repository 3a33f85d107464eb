//! Test environment: shards behind links, nodes, and a catalog in PostgreSQL.

use super::link::Link;
use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::{LAST_TABLE, Server, eventually_within, free_address, on_addresses};
use millrace_catalog::testing::TestDatabase;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use uuid::Uuid;

/// Key of nodes that share a catalog.
const SECRET_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
/// Timeout of waits for a cluster that was harmed.
const DEADLINE: Duration = Duration::from_secs(180);
/// Setting of tables that nothing merges: each insert of a long run leaves a part.
const MANY_PARTS: &str = "parts_to_delay_insert = 90000, parts_to_throw_insert = 100000";

/// Numbers of rows and of different persons, by the name of the request.
pub type Counts = BTreeMap<String, (u64, u64)>;

/// Shard: an engine and the link by which others reach its native port.
pub struct Shard {
    dir: TempDir,
    http: SocketAddr,
    native_port: u16,
    pub link: Link,
    engine: Option<Engine>,
}

/// Node that accepts events.
struct Node {
    dir: TempDir,
    ingest: SocketAddr,
    health: SocketAddr,
    server: Option<Server>,
}

pub struct ClusterEnv {
    pub shards: Vec<Shard>,
    nodes: Vec<Node>,
    database: TestDatabase,
    key: String,
}

impl Shard {
    fn new() -> Self {
        let native_port = free_address().port();
        Self {
            dir: TempDir::new().unwrap(),
            http: free_address(),
            native_port,
            link: Link::to(native_port),
            engine: None,
        }
    }

    pub fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// Kills the engine.
    pub fn kill(&mut self) {
        self.engine = None;
    }
}

impl ClusterEnv {
    /// Starts so many shards, and nodes that use them.
    pub fn start(shards: usize, nodes: usize) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(TestDatabase::postgres());
        let new_node = || Node {
            dir: TempDir::new().unwrap(),
            ingest: free_address(),
            health: free_address(),
            server: None,
        };
        let mut env = Self {
            shards: (0..shards).map(|_| Shard::new()).collect(),
            nodes: (0..nodes).map(|_| new_node()).collect(),
            database,
            key: String::new(),
        };
        for number in 0..shards {
            env.start_shard(number);
        }
        for number in 0..nodes {
            env.start_node(number);
        }
        let first = env.nodes[0].server.as_ref().unwrap();
        env.key = first.credential("project_api_key");
        env.wait_for_tables();
        env
    }

    /// Waits until each shard has its tables, and lets nothing merge any more.
    pub fn wait_for_tables(&self) {
        for shard in &self.shards {
            let engine = shard.engine();
            eventually_within(DEADLINE, "the tables of a shard", || {
                let exists = engine.ask(&format!("EXISTS millrace.{LAST_TABLE}"));
                exists.ok().filter(|answer| answer == "1")
            });
            engine.stop_merges("millrace.events_local");
            engine.query(&format!(
                "ALTER TABLE millrace.events_local MODIFY SETTING {MANY_PARTS}"
            ));
        }
    }

    /// Starts or restarts the engine of a shard, in a cluster of all shards.
    pub fn start_shard(&mut self, number: usize) {
        let links = self.shards.iter().map(|shard| shard.link.address);
        let links: Vec<String> = links.map(|address| address.to_string()).collect();
        let shard = &mut self.shards[number];
        shard.engine = None;
        shard.engine = Some(Engine::start_on(
            &shard.http.to_string(),
            shard.dir.path(),
            PASSWORD,
            &[
                "--clickhouse-native-port",
                &shard.native_port.to_string(),
                "--clickhouse-shards",
                &links.join(","),
                "--clickhouse-memory",
                "1GiB",
            ],
        ));
    }

    /// Adds a shard that no engine knows yet.
    pub fn add_shard(&mut self) {
        self.shards.push(Shard::new());
    }

    /// Settings by which a process uses the cluster.
    pub fn settings(&self) -> Vec<String> {
        let urls = self
            .shards
            .iter()
            .map(|shard| format!("http://{}", shard.http));
        let urls = urls.collect::<Vec<_>>().join(",");
        let settings = [
            ("--clickhouse-url", urls.as_str()),
            ("--clickhouse-cluster", "millrace"),
            ("--clickhouse-replication", "none"),
            ("--clickhouse-user", "millrace"),
            ("--clickhouse-password", PASSWORD),
            ("--database-url", self.database.url()),
            ("--secret-key", SECRET_KEY),
        ];
        let settings = settings.iter().flat_map(|(flag, value)| [*flag, *value]);
        settings.map(str::to_owned).collect()
    }

    pub fn start_node(&mut self, number: usize) {
        let settings = self.settings();
        let node = &mut self.nodes[number];
        node.server = None;
        let (ingest, health) = (node.ingest.to_string(), node.health.to_string());
        let mut command = on_addresses("serve", node.dir.path(), &ingest, &health);
        node.server = Some(Server::start_command(
            command.args(&settings),
            node.dir.path(),
        ));
    }

    /// Kills a node with all its threads.
    pub fn kill_node(&mut self, number: usize) {
        self.nodes[number].server = None;
    }

    /// Addresses that events are sent to.
    pub fn ingest_addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.ingest).collect()
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Counts of a table over all shards; `None` while one is away.
    pub fn counts(&self, table: &str) -> Option<Counts> {
        let sql = format!(
            "SELECT splitByString(' of ', distinct_id)[1] AS request, count(), \
             uniqExact(distinct_id) FROM millrace.{table} GROUP BY request"
        );
        let answer = self.shards[0].engine().ask(&sql).ok()?;
        let row = |line: &str| {
            let mut columns = line.split('\t');
            let request = columns.next()?.to_owned();
            let mut number = || columns.next()?.parse().ok();
            Some((request, (number()?, number()?)))
        };
        answer.lines().map(row).collect()
    }

    /// Waits until a check of the counts of a table is passed.
    pub fn until_counts(&self, table: &str, what: &str, check: impl Fn(&Counts) -> bool) -> Counts {
        eventually_within(DEADLINE, what, || self.counts(table).filter(&check))
    }

    /// Waits until the nodes have nothing left to ship.
    pub fn until_shipped(&self) {
        let is_shipped = |node: &Node| {
            let server = node.server.as_ref().unwrap();
            server.metric("millrace_shipping_lag_seconds{lane=\"live\"}") == Some(0.0)
        };
        eventually_within(DEADLINE, "an end of shipping", || {
            self.nodes.iter().all(is_shipped).then_some(())
        });
    }

    /// Files of rows that the nodes gave up.
    pub fn dead_letters(&self) -> Vec<PathBuf> {
        let lanes = self.nodes.iter().flat_map(|node| {
            let folder = node.dir.path().join("dead-letters");
            ["live", "historical"].map(|lane| folder.join(lane))
        });
        let files = lanes.filter_map(|lane| std::fs::read_dir(lane).ok());
        files.flatten().map(|file| file.unwrap().path()).collect()
    }

    /// Answer of each shard to a statement.
    pub fn on_each(&self, sql: &str) -> Vec<String> {
        let shards = self.shards.iter();
        shards.map(|shard| shard.engine().query(sql)).collect()
    }
}

/// Sends events of this name, each of another person, and all with this uuid if there is one;
/// returns true if they were acknowledged.
pub fn send(to: SocketAddr, key: &str, event: &str, count: u32, uuid: Option<Uuid>) -> bool {
    let events = (0..count).map(|nth| {
        let mut event = json!({
            "event": event, "distinct_id": format!("{event} of {nth}"),
            "properties": {"$set": {"nth": nth}},
        });
        if let Some(uuid) = uuid {
            event["uuid"] = json!(uuid.to_string());
        }
        event
    });
    let body = json!({ "api_key": key, "batch": Value::from_iter(events) });
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(10)))
        .build()
        .into();
    let answer = agent
        .post(format!("http://{to}/batch/"))
        .header("Content-Type", "application/json")
        .send(body.to_string());
    answer.is_ok()
}
