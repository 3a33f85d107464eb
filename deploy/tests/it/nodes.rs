//! Watermark of exports: with ClickHouse away, with nodes that die, stop, return and are
//! deregistered.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD, TestEnv};
use crate::server::{Server, eventually, run};
use millrace_catalog::{Catalog, NodeState, Nodes};
use serde_json::json;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Age of a watermark that stands still, in seconds.
const STANDS_STILL_SECONDS: f64 = 4.0;

fn url(data_dir: &Path) -> String {
    let file = data_dir.join("catalog.db");
    format!("sqlite://{}?mode=rwc", file.display())
}

/// Asks the catalog of a data folder.
pub fn on_catalog<T>(data_dir: &Path, ask: impl AsyncFnOnce(&Catalog) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let catalog = Catalog::open(&url(data_dir)).await.unwrap();
        let answer = ask(&catalog).await;
        catalog.close().await.unwrap();
        answer
    })
}

/// Watermark up to which exports may go, in microseconds.
pub fn exports_watermark(data_dir: &Path) -> Option<i64> {
    let far = on_catalog(data_dir, async |catalog| {
        Nodes::new(catalog).exports_watermark().await
    });
    far.unwrap().map(|far| far.0)
}

/// States of all nodes.
pub fn states(data_dir: &Path) -> Vec<NodeState> {
    let nodes = on_catalog(data_dir, async |catalog| Nodes::new(catalog).list().await);
    nodes.unwrap().iter().map(|node| node.state).collect()
}

fn until_watermark_past(data_dir: &Path, at: i64) {
    eventually("exports that may go on", || {
        (exports_watermark(data_dir) > Some(at)).then_some(())
    });
}

/// Waits until the watermark advances by itself.
pub fn until_exports_advance(data_dir: &Path) {
    let far = eventually("a watermark", || exports_watermark(data_dir));
    until_watermark_past(data_dir, far);
}

/// `created_at` of the only event of this name, in microseconds, once it is stored.
fn created_at(server: &Server, name: &str) -> i64 {
    let sql = format!(
        "SELECT toUnixTimestamp64Micro(created_at) FROM millrace.events WHERE event = '{name}'"
    );
    eventually("the event", || server.query(&sql).parse().ok())
}

fn capture(server: &Server, name: &str) {
    server.capture(&json!([{"event": name, "distinct_id": "a"}]));
}

fn nodes(data_dir: &Path, args: &[&str]) -> Output {
    let data_dir = data_dir.to_str().unwrap();
    run(&[&["nodes"], args, &["--data-dir", data_dir]].concat())
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn name_of(node_dir: &Path) -> String {
    std::fs::read_to_string(node_dir.join("node")).unwrap()
}

#[test]
fn exports_may_pass_an_event_once_it_is_in_clickhouse() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    capture(&server, "first");
    let at = created_at(&server, "first");
    until_watermark_past(dir.path(), at);
    let listed = stdout(&nodes(dir.path(), &["list"]));
    for word in [
        name_of(dir.path()).as_str(),
        "running",
        "Exports may go up to",
    ] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
    assert!(server.stop().success());
    assert_eq!(states(dir.path()), [NodeState::Stopped]);
    let far = exports_watermark(dir.path()).unwrap();
    assert!(far > at);
    // The watermark goes on where it was.
    let server = Server::start(dir.path());
    until_watermark_past(dir.path(), far);
    assert_eq!(states(dir.path()), [NodeState::Running]);
    drop(server);
}

#[test]
fn while_clickhouse_is_away_exports_wait_also_across_a_crash_and_then_go_on() {
    let mut env = TestEnv::start(&[]);
    let data_dir = env.dir.path().join("ingest");
    until_watermark_past(&data_dir, 0);
    env.proxy.set("down".parse().unwrap());
    capture(&env.server, "waits");
    let stands_still = |env: &TestEnv| {
        eventually("a watermark that stands still", || {
            let age = env.metric("millrace_watermark_age_seconds", "");
            (age > STANDS_STILL_SECONDS).then_some(())
        });
        exports_watermark(&data_dir).unwrap()
    };
    let mut seen = vec![stands_still(&env)];
    env.restart_server();
    seen.push(stands_still(&env));
    assert_eq!(
        states(&data_dir),
        [NodeState::Running],
        "it counts as before"
    );
    env.proxy.lift();
    let sql =
        "SELECT toUnixTimestamp64Micro(created_at) FROM millrace.events WHERE event = 'waits'";
    let at: i64 = eventually("the event", || env.engine.query(sql).parse().ok());
    assert!(seen.iter().all(|far| *far <= at), "{seen:?}, {at}");
    until_watermark_past(&data_dir, at);
}

/// Two nodes with one catalog, and their folders.
struct NodePair {
    _engine: Engine,
    dirs: [TempDir; 2],
    servers: [Option<Server>; 2],
    args: Vec<String>,
}

impl NodePair {
    fn start() -> Self {
        let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let engine = Engine::start(&dirs[0].path().join("engine"), PASSWORD);
        let database = url(dirs[0].path());
        let args = [
            ("--clickhouse-url", engine.url.as_str()),
            ("--clickhouse-user", "millrace"),
            ("--clickhouse-password", PASSWORD),
            ("--database-url", database.as_str()),
        ];
        let args = args.iter().flat_map(|(flag, value)| [flag, value]);
        let args = args.map(ToString::to_string).collect();
        let mut pair = Self {
            _engine: engine,
            dirs,
            servers: [None, None],
            args,
        };
        for number in 0..2 {
            pair.start_node(number);
        }
        pair
    }

    fn start_node(&mut self, number: usize) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let server = Server::start_mode("ingest", self.dirs[number].path(), &args);
        self.servers[number] = Some(server);
    }

    fn catalog(&self) -> &Path {
        self.dirs[0].path()
    }

    fn watermark_of(&self, number: usize) -> i64 {
        let name = name_of(self.dirs[number].path());
        let nodes = on_catalog(self.catalog(), async |catalog| {
            Nodes::new(catalog).list().await
        });
        let nodes = nodes.unwrap();
        let node = nodes.iter().find(|node| node.name == name).unwrap();
        node.watermark.unwrap().0
    }
}

#[test]
fn a_dead_node_holds_up_exports_until_it_returns_or_is_deregistered() {
    let mut pair = NodePair::start();
    until_exports_advance(pair.catalog());
    let name = name_of(pair.dirs[1].path());
    drop(pair.servers[1].take());
    let last = pair.watermark_of(1);
    eventually("the other's watermark", || {
        (pair.watermark_of(0) > last + 2_000_000).then_some(())
    });
    assert_eq!(exports_watermark(pair.catalog()), Some(last));
    let refused = stderr(&nodes(pair.catalog(), &["deregister", &name]));
    assert!(refused.contains("was heard of"), "{refused}");
    pair.start_node(1);
    until_watermark_past(pair.catalog(), last);
    until_exports_advance(pair.catalog());

    drop(pair.servers[1].take());
    let last = pair.watermark_of(1);
    stdout(&nodes(pair.catalog(), &["deregister", &name, "--yes"]));
    until_watermark_past(pair.catalog(), last + 2_000_000);
    pair.start_node(1);
    until_exports_advance(pair.catalog());
    assert_eq!(states(pair.catalog()), [NodeState::Running; 2]);
}

#[test]
fn a_stopped_node_holds_up_nothing_and_may_be_deregistered() {
    let mut pair = NodePair::start();
    until_exports_advance(pair.catalog());
    assert!(pair.servers[1].take().unwrap().stop().success());
    until_exports_advance(pair.catalog());
    let name = name_of(pair.dirs[1].path());
    // The alias is the name that the command had before.
    stdout(&nodes(pair.catalog(), &["forget", &name]));
    assert_eq!(states(pair.catalog()), [NodeState::Running]);
    let unknown = stderr(&nodes(pair.catalog(), &["deregister", &name]));
    assert!(unknown.contains("nodes list"), "{unknown}");
}

#[test]
fn a_node_deregistered_while_running_registers_again() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    until_watermark_past(dir.path(), 0);
    let name = name_of(dir.path());
    stdout(&nodes(dir.path(), &["deregister", &name, "--yes"]));
    eventually("the node", || {
        (states(dir.path()) == [NodeState::Running]).then_some(())
    });
    drop(server);
}
