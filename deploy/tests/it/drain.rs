//! SIGTERM under load: every request is answered, acknowledged events are stored once, and two
//! nodes behind a load balancer restart without a failed request.

use crate::clickhouse_outage::test_env::{
    Engine, Load, PASSWORD, assert_all_acknowledged, exactly_once,
};
use crate::server::{Server, allow_imports, eventually, free_address, get, on_addresses};
use millrace_load::clickhouse::ClickHouse;
use millrace_load::{Mode, Plan};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Default of `grace_seconds`.
const GRACE: Duration = Duration::from_secs(10);
/// Restarts of one server under load.
const RESTARTS: usize = 5;
/// Events acknowledged between two restarts, at least.
const EVENTS: u64 = 400;

/// `millrace ingest` that keeps its addresses across restarts.
struct Node {
    dir: PathBuf,
    args: Vec<String>,
    addresses: [SocketAddr; 2],
    server: Option<Server>,
}

impl Node {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let mut node = Self {
            dir: dir.to_owned(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            addresses: [free_address(), free_address()],
            server: None,
        };
        node.run();
        node
    }

    fn run(&mut self) {
        let [ingest, health] = self.addresses.map(|address| address.to_string());
        let mut command = on_addresses("ingest", &self.dir, &ingest, &health);
        command.args(&self.args);
        self.server = Some(Server::start_command(&mut command, &self.dir));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Sends SIGTERM and waits for the end; returns the time that it took.
    fn stop(&mut self) -> Duration {
        let asked = Instant::now();
        let status = self.server.take().unwrap().stop();
        assert!(status.success(), "SIGTERM ends with {status}");
        asked.elapsed()
    }
}

/// HAProxy with our configuration for these nodes; killed when dropped.
struct Balancer {
    child: Child,
    url: String,
}

impl Balancer {
    fn start(dir: &Path, nodes: &[Node; 2]) -> Self {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("haproxy/haproxy.cfg");
        let mut text = std::fs::read_to_string(ours).unwrap();
        let front = free_address();
        let server =
            |node: &Node| format!("{} port {}", node.addresses[0], node.addresses[1].port());
        for (there, here) in [
            ("127.0.0.1:8080", front.to_string()),
            ("127.0.0.1:8000 port 8011", server(&nodes[0])),
            ("127.0.0.2:8000 port 8011", server(&nodes[1])),
        ] {
            assert!(text.contains(there), "{there} in the configuration");
            text = text.replace(there, &here);
        }
        let path = dir.join("haproxy.cfg");
        std::fs::write(&path, text).unwrap();
        // In the foreground, so that the process that ends is our child.
        let child = Command::new(haproxy())
            .arg("-db")
            .arg("-f")
            .arg(&path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("haproxy: {error}; run `make test-setup`"));
        Self {
            child,
            url: format!("http://{front}"),
        }
    }

    /// Waits until a node is ready behind the balancer.
    fn until_ready(&self) {
        let url = format!("{}/_health/ready", self.url);
        let agent: ureq::Agent = ureq::Agent::config_builder().build().into();
        eventually("the balancer", || agent.get(&url).call().ok());
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of HAProxy, which is not on every user's PATH on Debian.
fn haproxy() -> PathBuf {
    let debian = PathBuf::from("/usr/sbin/haproxy");
    if debian.exists() {
        debian
    } else {
        "haproxy".into()
    }
}

fn plan(url: &str, key: &str, ledger: &Path) -> Plan {
    Plan {
        mode: Mode::Open {
            events_per_second: 2_000.0,
        },
        connections: 16,
        batch_events: 20,
        event_bytes: 400,
        historical_share: 0.1,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(24 * 3_600),
        ledger: Some(ledger.to_owned()),
        ..Plan::new(url, key)
    }
}

fn to(engine: &Engine) -> Vec<String> {
    let args = [
        "--clickhouse-user",
        "millrace",
        "--clickhouse-password",
        PASSWORD,
    ];
    let url = ["--clickhouse-url", &engine.url];
    url.iter()
        .chain(&args)
        .map(|arg| (*arg).to_owned())
        .collect()
}

#[test]
fn a_stop_under_load_answers_every_request_and_loses_nothing() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let args = to(&engine);
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let mut node = Node::start(&dir.path().join("node"), &args);
    node.server().wait_for("EXISTS millrace.server_runs", "1");
    allow_imports(&["--data-dir", node.dir.to_str().unwrap()]);
    engine.stop_merges("millrace.events");
    let ledger = dir.path().join("ledger");
    let server = node.server();
    let load = Load::start(plan(
        &server.credential("ingest_url"),
        &server.credential("project_api_key"),
        &ledger,
    ));
    for _ in 0..RESTARTS {
        load.until_acknowledged(EVENTS);
        let took = node.stop();
        assert!(took <= GRACE, "{took:?} are more than the grace period");
        node.run();
    }
    load.until_acknowledged(EVENTS);
    // The load generator retries refused connections, never sent requests.
    assert_all_acknowledged(&load.end());
    exactly_once(&ledger, &engine.clickhouse(ClickHouse::TABLE));
}

#[test]
fn two_nodes_behind_a_balancer_restart_one_by_one_and_no_request_fails() {
    const DRAIN: Duration = Duration::from_secs(3);
    let dir = TempDir::new().unwrap();
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let catalog = format!(
        "sqlite://{}?mode=rwc",
        dir.path().join("catalog.db").display()
    );
    let mut args = to(&engine);
    args.extend(["--database-url", &catalog, "--drain-seconds", "3"].map(str::to_owned));
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let mut nodes = ["one", "two"].map(|name| Node::start(&dir.path().join(name), &args));
    nodes[0]
        .server()
        .wait_for("EXISTS millrace.server_runs", "1");
    allow_imports(&[
        "--data-dir",
        nodes[0].dir.to_str().unwrap(),
        "--database-url",
        &catalog,
    ]);
    engine.stop_merges("millrace.events");
    let balancer = Balancer::start(dir.path(), &nodes);
    balancer.until_ready();
    let ledger = dir.path().join("ledger");
    let key = nodes[0].server().credential("project_api_key");
    let load = Load::start(plan(&balancer.url, &key, &ledger));
    load.until_acknowledged(EVENTS);
    for node in &mut nodes {
        let before = load.acknowledged();
        let took = node.stop();
        assert!(
            took <= DRAIN + GRACE,
            "{took:?} are more than the grace period"
        );
        assert!(load.acknowledged() > before, "the other one went on");
        node.run();
        until_it_takes_requests(node);
    }
    load.until_acknowledged(EVENTS);
    assert_all_acknowledged(&load.end());
    exactly_once(&ledger, &engine.clickhouse(ClickHouse::TABLE));
}

/// Waits until the balancer has found the node again, so that the other one may stop.
fn until_it_takes_requests(node: &Node) {
    let url = format!("{}/metrics", node.server().credential("health_url"));
    eventually("requests by the balancer", || {
        let (_, text) = get(&url, &[]);
        let batches = |line: &&str| {
            line.starts_with("millrace_ingest_requests_total{") && line.contains("status=\"200\"")
        };
        text.lines().find(batches).map(drop)
    });
}
