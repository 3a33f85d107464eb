//! Test environment: engine, proxy, server, load and ledger.

use crate::server::{Server, allow_imports, eventually, millrace};
use millrace_load::clickhouse::ClickHouse;
use millrace_load::ledger::AckLedger;
use millrace_load::metrics;
use millrace_load::proxy::Proxy;
use millrace_load::{Mode, Plan, Progress, Stop, Summary, run_observed, verify};
use millrace_rows::testing::number_from_env;
use rustix::process::{Signal, kill_process_group};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// Events per second while faults are injected.
pub const RATE: f64 = 2_000.0;
/// Least number of events acknowledged under each fault.
pub const FAULT_EVENTS: u64 = 400;
const USER: &str = "millrace";
/// Password of the server.
pub const PASSWORD: &str = "right-password-of-tests";
/// Timeout for the next row, before it counts as lost.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Additional duration of each fault; zero by default.
pub fn fault_length() -> Duration {
    Duration::from_secs(number_from_env("MILLRACE_AWAY_SECONDS", 0))
}

/// `millrace clickhouse`, without merges once the tables are there; killed when dropped.
pub struct Engine {
    child: Child,
    dir: PathBuf,
    pub url: String,
}

/// Server under test with its engine, the proxy between them, and the ledger of acknowledged
/// events.
pub struct TestEnv {
    pub server: Server,
    pub proxy: Proxy,
    pub engine: Engine,
    ledger: PathBuf,
    args: Vec<String>,
    pub dir: TempDir,
}

/// Load that runs until it is ended.
pub struct Load {
    stop: Stop,
    progress: Arc<Mutex<Option<Progress>>>,
    thread: JoinHandle<anyhow::Result<Summary>>,
}

// === impl Engine ===

impl Engine {
    pub fn start(dir: &Path, password: &str) -> Self {
        Self::start_with(dir, password, &[])
    }

    /// Starts an engine with more arguments.
    pub fn start_with(dir: &Path, password: &str, args: &[&str]) -> Self {
        Self::start_on("127.0.0.1:0", dir, password, args)
    }

    /// Starts an engine on an address.
    pub fn start_on(listen: &str, dir: &Path, password: &str, args: &[&str]) -> Self {
        let mut child = millrace()
            .arg("clickhouse")
            .arg("--data-dir")
            .arg(dir)
            .args(["--clickhouse-addr", listen])
            .args(["--clickhouse-password", password])
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().expect("the engine's address").unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let url = line
            .split([' ', ','])
            .find(|word| word.starts_with("http://"));
        Self {
            url: url.unwrap().to_owned(),
            child,
            dir: dir.to_owned(),
        }
    }

    /// Kills the engine.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Address of the engine.
    pub fn address(&self) -> SocketAddr {
        let address = self.url.strip_prefix("http://");
        address.unwrap().parse().unwrap()
    }

    /// Runs a statement.
    pub fn query(&self, sql: &str) -> String {
        let answer = self.ask(sql);
        answer.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs a statement; the error is the server's, or that it is away.
    pub fn ask(&self, sql: &str) -> Result<String, ureq::Error> {
        let mut answer = ureq::post(&self.url)
            .header("X-ClickHouse-User", USER)
            .header("X-ClickHouse-Key", PASSWORD)
            .send(sql)?;
        let text = answer.body_mut().read_to_string()?;
        Ok(text.trim_end().to_owned())
    }

    /// Client for the rows of a table.
    pub fn clickhouse(&self, table: &str) -> ClickHouse {
        ClickHouse {
            url: self.url.clone(),
            user: USER.to_owned(),
            password: PASSWORD.to_owned(),
            table: table.to_owned(),
        }
    }

    /// Stops merges of a table for good, as they fold duplicates.
    pub fn stop_merges(&self, table: &str) {
        self.query(&format!(
            "ALTER TABLE {table} MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1"
        ));
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `millrace ingest` that ships through the proxy.
fn serve(dir: &Path, proxy: &Proxy, args: &[&str]) -> Server {
    let url = proxy.url();
    let as_user = ["--clickhouse-user", USER, "--clickhouse-password", PASSWORD];
    let mut all = [&as_user[..], args].concat();
    if !args.contains(&"--clickhouse-url") {
        all.extend(["--clickhouse-url", &url]);
    }
    Server::start_mode("ingest", &dir.join("ingest"), &all)
}

// === impl TestEnv ===

impl TestEnv {
    /// Starts all parts, the server with these arguments.
    pub fn start(args: &[&str]) -> Self {
        Self::start_in(TempDir::new().unwrap(), args)
    }

    /// Starts all parts in a folder, whose `ingest` is the server's and may exist.
    pub fn start_in(dir: TempDir, args: &[&str]) -> Self {
        let args = args.iter().map(ToString::to_string).collect();
        Self::start_through(dir, |_| args)
    }

    /// Starts all parts, the server with arguments that depend on the proxy's address.
    pub fn start_through(dir: TempDir, args_for: impl FnOnce(&Proxy) -> Vec<String>) -> Self {
        let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
        let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
        let args = args_for(&proxy);
        let given: Vec<&str> = args.iter().map(String::as_str).collect();
        let server = serve(dir.path(), &proxy, &given);
        eventually("the tables", || {
            (engine.query("EXISTS millrace.server_runs") == "1").then_some(())
        });
        engine.stop_merges("millrace.events");
        let data_dir = dir.path().join("ingest");
        allow_imports(&["--data-dir", data_dir.to_str().unwrap()]);
        Self {
            server,
            proxy,
            engine,
            ledger: dir.path().join("ledger"),
            args,
            dir,
        }
    }

    /// Kills the server.
    pub fn kill_server(&mut self) {
        // It fails only when all of them have ended.
        let _ = kill_process_group(self.server.pid(), Signal::KILL);
        self.server.wait();
    }

    /// Kills the server, if it still runs, and starts it again.
    pub fn restart_server(&mut self) {
        self.kill_server();
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        self.server = serve(self.dir.path(), &self.proxy, &args);
    }

    /// Starts the killed engine again, and points the proxy to it.
    pub fn restart_engine(&mut self, password: &str) {
        let dir = self.engine.dir.clone();
        self.engine = Engine::start(&dir, password);
        self.proxy.set_upstream(&self.engine.url).unwrap();
    }

    /// Plan of the load: small requests, a tenth of the events from the past year.
    pub fn plan(&self, events_per_second: f64) -> Plan {
        Plan {
            mode: Mode::Open { events_per_second },
            connections: 8,
            batch_events: 20,
            event_bytes: 400,
            historical_share: 0.1,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(24 * 3_600),
            ledger: Some(self.ledger.clone()),
            ..Plan::new(
                &self.server.credential("ingest_url"),
                &self.server.credential("project_api_key"),
            )
        }
    }

    /// Posts one event with a key; returns status and `Retry-After`.
    pub fn post_event(&self, key: &str) -> (u16, Option<u32>) {
        post_event(&self.server, key)
    }

    /// Counter of the server's metrics, summed over the lines that contain `label`.
    pub fn metric(&self, name: &str, label: &str) -> f64 {
        let text = metrics::read(&self.server.credential("health_url")).unwrap();
        metrics::sum(&text, name, label)
    }

    /// Number of failed attempts of inserts.
    pub fn retries(&self) -> f64 {
        self.metric("millrace_insert_retries_total", "")
    }

    /// Waits until `more` further attempts have failed.
    pub fn until_retries(&self, before: f64, more: u64) {
        eventually("another try", || {
            (self.retries() >= before + more as f64).then_some(())
        });
    }

    /// Waits until another insert of live events is stored.
    pub fn until_shipping(&self) {
        let stored = || self.metric("millrace_inserts_total", "lane=\"live\"");
        let before = stored();
        eventually("shipping", || (stored() > before).then_some(()));
    }

    /// Injects a fault under load until it has struck `strikes` times, and waits until inserts are
    /// stored again.
    pub fn endure(&self, load: &Load, rule: &str, strikes: u64) {
        let (before, retries) = (self.proxy.counts().faults, self.retries());
        self.proxy.set(rule.parse().unwrap());
        load.until_acknowledged(FAULT_EVENTS);
        if rule == "down" {
            self.until_retries(retries, strikes);
        } else {
            eventually(rule, || {
                (self.proxy.counts().faults >= before + strikes).then_some(())
            });
        }
        std::thread::sleep(fault_length());
        self.proxy.lift();
        self.until_shipping();
    }

    /// Sends 100 events of which the table rejects one, that of `user-17`, and waits for the
    /// others.
    pub fn capture_with_one_bad(&self) {
        self.engine
            .query("ALTER TABLE millrace.events ADD CONSTRAINT good CHECK event != 'bad'");
        let event = |number: u32| {
            let name = if number == 17 { "bad" } else { "good" };
            json!({"event": name, "distinct_id": format!("user-{number}")})
        };
        let batch: Vec<Value> = (0..100).map(event).collect();
        self.server.capture(&json!(batch));
        self.wait_for_rows(99);
    }

    /// Waits until `count` events are stored, each of them once.
    pub fn wait_for_rows(&self, count: u32) {
        let counts = "SELECT count(), uniqExact(uuid) FROM millrace.events";
        self.server.wait_for(counts, &format!("{count}\t{count}"));
    }

    /// Path of the ledger of acknowledged events.
    pub fn ledger(&self) -> PathBuf {
        self.ledger.clone()
    }

    /// Asserts that `table` has every acknowledged event of the ledger once.
    pub fn assert_exactly_once(&self, table: &str) -> u64 {
        exactly_once(&self.ledger, &self.engine.clickhouse(table))
    }
}

/// Asserts that a table of ClickHouse has every acknowledged event of a ledger once.
pub fn exactly_once(ledger: &Path, clickhouse: &ClickHouse) -> u64 {
    let ledger = AckLedger::read(ledger).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let verdict = runtime
        .block_on(verify(&ledger, clickhouse, TEST_TIMEOUT))
        .unwrap();
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.acknowledged_events > 0, "nothing was acknowledged");
    verdict.acknowledged_events
}

/// Posts one event with a key; returns status and `Retry-After`.
pub fn post_event(server: &Server, key: &str) -> (u16, Option<u32>) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let body = json!({"api_key": key, "batch": [{"event": "knock", "distinct_id": "me"}]});
    let answer = agent
        .post(format!("{}/batch/", server.credential("ingest_url")))
        .header("Content-Type", "application/json")
        .send(body.to_string())
        .unwrap();
    let after = answer.headers().get("retry-after");
    let seconds = after.map(|value| value.to_str().unwrap().parse().unwrap());
    (answer.status().as_u16(), seconds)
}

// === impl Load ===

impl Load {
    pub fn start(plan: Plan) -> Self {
        let stop = Stop::default();
        let progress = Arc::<Mutex<Option<Progress>>>::default();
        let (asked, seen) = (stop.clone(), Arc::clone(&progress));
        let thread = std::thread::spawn(move || {
            run_observed(&plan, &asked, &mut |now| {
                *seen.lock().unwrap() = Some(*now);
            })
        });
        Self {
            stop,
            progress,
            thread,
        }
    }

    /// Number of events acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.of_progress(|progress| progress.acknowledged_events)
    }

    /// Number of requests not acknowledged so far.
    pub fn failed(&self) -> u64 {
        self.of_progress(|progress| progress.failed_requests)
    }

    fn of_progress(&self, get: impl Fn(&Progress) -> u64) -> u64 {
        self.progress.lock().unwrap().as_ref().map_or(0, get)
    }

    /// Waits until `more` further events are acknowledged.
    pub fn until_acknowledged(&self, more: u64) {
        let before = self.acknowledged();
        eventually("acknowledged events", || {
            (self.acknowledged() >= before + more).then_some(())
        });
    }

    /// Ends the load, once requests under way are answered.
    pub fn end(self) -> Summary {
        self.try_end().unwrap()
    }

    /// Ends the load; an error if no connection was possible.
    pub fn try_end(self) -> anyhow::Result<Summary> {
        self.stop.ask();
        self.thread.join().unwrap()
    }
}

/// Asserts that every request of a run was acknowledged.
pub fn assert_all_acknowledged(summary: &Summary) {
    assert!(summary.failures.is_empty(), "{summary}");
}
