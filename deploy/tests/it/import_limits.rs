//! Import quota: no more events than approved, on several nodes, whichever of them is killed.

use crate::server::{Server, eventually, get, run};
use millrace_catalog::testing::TestDatabase;
use rustix::process::{Signal, kill_process_group};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Arguments of an absent ClickHouse: events count as imported once they are in the log.
pub const NO_ENGINE: [&str; 6] = [
    "--clickhouse-url",
    "http://127.0.0.1:1",
    "--clickhouse-user",
    "millrace",
    "--clickhouse-password",
    "nobody",
];

/// `millrace ingest` beside others on one catalog.
struct Node {
    dir: PathBuf,
    url: String,
    server: Server,
}

impl Node {
    fn start(dir: &Path, url: &str) -> Self {
        let args = [&NO_ENGINE[..], &["--database-url", url]].concat();
        Self {
            dir: dir.to_owned(),
            url: url.to_owned(),
            server: Server::start_mode("ingest", dir, &args),
        }
    }

    /// Kills the node.
    fn kill(&mut self) {
        // It fails only when all of them have ended.
        let _ = kill_process_group(self.server.pid(), Signal::KILL);
        self.server.wait();
    }

    /// Starts the killed node again.
    fn restart(self) -> Self {
        Self::start(&self.dir, &self.url)
    }

    /// Stops the node cleanly, and starts it again.
    fn stop_and_restart(self) -> Self {
        let Self { dir, url, server } = self;
        let status = server.stop();
        assert!(status.success(), "SIGTERM ends with {status}");
        Self::start(&dir, &url)
    }

    fn import(&self, key: &str, events: u64) -> ImportResponse {
        import(&self.server, key, events)
    }
}

#[derive(Debug)]
struct ImportResponse {
    status: u16,
    code: String,
    retry_after: Option<u64>,
}

/// Sends an import of so many events.
fn import(server: &Server, key: &str, events: u64) -> ImportResponse {
    let event = json!({"event": "old", "distinct_id": "d", "timestamp": "2020-01-01"});
    let events = vec![event; usize::try_from(events).unwrap()];
    let body = json!({"api_key": key, "historical_migration": true, "batch": events});
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let url = format!("{}/batch/", server.credential("ingest_url"));
    let mut answer = agent.post(&url).send(body.to_string()).unwrap();
    let retry_after = answer.headers().get("retry-after");
    let retry_after = retry_after.map(|it| it.to_str().unwrap().parse().unwrap());
    let text = answer.body_mut().read_to_string().unwrap();
    let body: Value = serde_json::from_str(&text).unwrap_or_default();
    ImportResponse {
        status: answer.status().as_u16(),
        code: body["code"].as_str().unwrap_or_default().to_owned(),
        retry_after,
    }
}

/// Sends imports until the volume is used up, waiting as `Retry-After` says; returns the number of
/// accepted events.
fn import_all(node: &Node, key: &str, events_max: u64) -> u64 {
    let (mut taken, mut events) = (0, events_max);
    loop {
        let answer = node.import(key, events);
        match (answer.status, &*answer.code) {
            (200, _) => taken += events,
            (429, "migration_volume_exceeded") if events == 1 => return taken,
            // Only smaller batches fit the rest.
            (429, "migration_volume_exceeded") => events = events.div_ceil(2).min(events - 1),
            (429 | 503, _) => {
                std::thread::sleep(Duration::from_secs(answer.retry_after.unwrap()));
            }
            _ => panic!("{answer:?}"),
        }
    }
}

/// Runs a command on a catalog.
fn run_command(url: &str, words: &[&str]) -> String {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().to_str().unwrap();
    let output = run(&[words, &["--data-dir", data_dir, "--database-url", url]].concat());
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn approve(url: &str, total: u64, per_minute: u64) {
    let (total, per_minute) = (total.to_string(), per_minute.to_string());
    let words = [
        "migrations",
        "approve",
        "--project-id",
        "1",
        "--total-events",
        &total,
        "--events-per-minute",
        &per_minute,
        "--note",
        "By phone",
    ];
    run_command(url, &words);
}

/// State and events imported of all migrations, oldest first.
fn migrations(url: &str) -> Vec<(String, u64)> {
    let listed = run_command(url, &["migrations", "list"]);
    let rows = listed.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words[2].to_owned(), words[4].parse().unwrap())
    });
    rows.collect()
}

fn until_imported(url: &str, expected: &[(&str, u64)]) {
    eventually("the count of what was imported", || {
        let seen = migrations(url);
        let seen = seen.iter().map(|(state, events)| (&**state, *events));
        seen.eq(expected.iter().copied()).then_some(())
    });
}

fn nodes_accept_exactly_the_approved_volume(url: &str) {
    const TOTAL: u64 = 5_003;
    let dir = TempDir::new().unwrap();
    let first = Node::start(&dir.path().join("one"), url);
    let second = Node::start(&dir.path().join("two"), url);
    let key = first.server.credential("project_api_key");
    approve(url, TOTAL, 1_000_000);
    // Both nodes at once, with batches of many sizes.
    let taken: u64 = std::thread::scope(|scope| {
        let senders = [(&first, 7), (&second, 64), (&first, 1), (&second, 500)];
        let senders = senders.map(|(node, events)| {
            let key = &key;
            scope.spawn(move || import_all(node, key, events))
        });
        senders.map(|sender| sender.join().unwrap()).iter().sum()
    });
    assert_eq!(taken, TOTAL);
    until_imported(url, &[("finished", TOTAL)]);
    // A restart changes nothing, killed or not.
    let (mut first, second) = (first, second);
    first.kill();
    let (first, second) = (first.restart(), second.stop_and_restart());
    for node in [&first, &second] {
        let refused = node.import(&key, 1);
        assert_eq!(
            (refused.status, &*refused.code),
            (429, "migration_volume_exceeded")
        );
        assert_eq!(refused.retry_after, None);
    }
    // A new approval takes effect within seconds on all nodes.
    approve(url, 40, 1_000_000);
    for node in [&first, &second] {
        eventually("more", || {
            (node.import(&key, 20).status == 200).then_some(())
        });
    }
    until_imported(url, &[("finished", TOTAL), ("finished", 40)]);
}

#[test]
fn two_nodes_accept_exactly_the_approved_volume_on_sqlite() {
    let database = TestDatabase::sqlite();
    nodes_accept_exactly_the_approved_volume(database.url());
}

#[test]
fn two_nodes_accept_exactly_the_approved_volume_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::postgres());
    nodes_accept_exactly_the_approved_volume(database.url());
}

#[test]
fn a_kill_forfeits_at_most_one_lease_and_the_operator_can_approve_more() {
    const TOTAL: u64 = 5_000;
    /// An eighth of a minute's events.
    const LEASE: u64 = 1_000;
    let database = TestDatabase::sqlite();
    let (url, dir) = (database.url(), TempDir::new().unwrap());
    let mut node = Node::start(dir.path(), url);
    let key = node.server.credential("project_api_key");
    approve(url, TOTAL, 8 * LEASE);
    assert_eq!(node.import(&key, 20).status, 200);
    assert_eq!(node.import(&key, 300).status, 200);
    // Before the catalog knows of all that was imported.
    node.kill();
    let node = node.restart();
    let taken = 320 + import_all(&node, &key, 500);
    assert!((TOTAL - LEASE..=TOTAL).contains(&taken), "{taken}");
    let state = |number: usize| {
        let seen = migrations(url).into_iter().nth(number);
        seen.filter(|(state, _)| state == "finished")
    };
    let (_, imported) = eventually("the end of the approval", || state(0));
    assert!((taken - 320..=taken).contains(&imported), "{imported}");
    approve(url, 320, 8 * LEASE);
    eventually("more", || {
        (node.import(&key, 320).status == 200).then_some(())
    });
    let more = eventually("the end of the second approval", || state(1));
    assert_eq!(more.1, 320);
}

#[test]
fn a_client_that_waits_for_retry_after_is_accepted() {
    let database = TestDatabase::sqlite();
    let dir = TempDir::new().unwrap();
    let node = Node::start(dir.path(), database.url());
    let key = node.server.credential("project_api_key");
    assert_eq!(node.import(&key, 10_001).code, "batch_exceeds_rate");
    assert_eq!(node.import(&key, 10_000).status, 200);
    let refused = node.import(&key, 400);
    assert_eq!(
        (refused.status, &*refused.code),
        (429, "migration_rate_exceeded")
    );
    let seconds = refused.retry_after.unwrap();
    assert!(
        (1..=3).contains(&seconds),
        "{seconds} s for 400 of 10 000 a minute"
    );
    std::thread::sleep(Duration::from_secs(seconds));
    let told = node.import(&key, 400);
    assert_eq!(told.status, 200, "{told:?}");
    // The volume is kept; the rate limit starts full again.
    let node = {
        let mut node = node;
        node.kill();
        node.restart()
    };
    assert_eq!(node.import(&key, 10_000).status, 200);
    let (_, metrics) = get(
        &format!("{}/metrics", node.server.credential("health_url")),
        &[],
    );
    assert!(
        metrics.contains("millrace_quota_leased_events"),
        "{metrics}"
    );
}

#[test]
fn without_the_feature_imports_are_rejected_and_live_events_accepted() {
    let database = TestDatabase::sqlite();
    let (url, dir) = (database.url(), TempDir::new().unwrap());
    let node = Node::start(dir.path(), url);
    let key = node.server.credential("project_api_key");
    assert_eq!(node.import(&key, 3).status, 200);
    let features = ["organizations", "features"];
    run_command(
        url,
        &[&features[..], &["--off", "historical_migrations"]].concat(),
    );
    let refused = eventually("a refusal", || {
        Some(node.import(&key, 3)).filter(|answer| answer.status != 200)
    });
    assert_eq!((refused.status, &*refused.code), (403, "payment_required"));
    node.server
        .capture(&json!([{"event": "live", "distinct_id": "d"}]));
    run_command(
        url,
        &[&features[..], &["--on", "historical_migrations"]].concat(),
    );
    eventually("leave", || {
        (node.import(&key, 3).status == 200).then_some(())
    });
}
