//! A ClickHouse that rejects the user, grants too little, or is absent, is reported at the start:
//! in the banner, the log, `/_health/ready?verbose` and the metrics, each time with advice, by each
//! mode that uses it. Events are accepted all the same, and the report is withdrawn when the
//! problem is fixed.

use super::test_env::{Engine, PASSWORD};
use crate::server::{Server, eventually, get, on_own_ports};
use millrace_load::metrics;
use millrace_load::proxy::Proxy;
use serde_json::{Value, json};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Key of secrets of all processes, as they share a catalog.
const SECRET_KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

/// Command for `millrace ingest` as the engine's user.
pub fn ingest_command(data_dir: &Path, args: &[&str]) -> Command {
    command("ingest", data_dir, args)
}

fn command(mode: &str, data_dir: &Path, args: &[&str]) -> Command {
    let mut command = on_own_ports(mode, data_dir);
    command.args(["--clickhouse-user", "millrace"]);
    command.args(["--clickhouse-password", PASSWORD]);
    // A stop does not wait for events that cannot be shipped.
    command.args(["--grace-seconds", "1"]).args(args);
    command
}

/// Starts `millrace ingest` as the engine's user.
pub fn ingest(data_dir: &Path, args: &[&str]) -> Server {
    Server::start_command(&mut ingest_command(data_dir, args), data_dir)
}

/// Server whose reports on ClickHouse are checked.
pub struct MonitoredServer {
    pub server: Server,
    log: PathBuf,
}

impl MonitoredServer {
    /// Starts `millrace ingest`.
    pub fn start(data_dir: &Path, args: &[&str]) -> Self {
        Self::start_mode("ingest", data_dir, args)
    }

    fn start_mode(mode: &str, data_dir: &Path, args: &[&str]) -> Self {
        let log = data_dir.with_extension("log");
        let mut command = command(mode, data_dir, args);
        command.stderr(File::create(&log).unwrap());
        let server = Server::start_command(&mut command, data_dir);
        Self { server, log }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Part `clickhouse` of `/_health/ready?verbose`, while the server is ready.
    fn part(&self) -> Value {
        let health = self.server.credential("health_url");
        let (status, _) = get(&format!("{health}/_health/ready"), &[]);
        assert_eq!(status, 200);
        let (status, body) = get(&format!("{health}/_health/ready?verbose"), &[]);
        assert_eq!(status, 200, "{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let parts = body["parts"].as_array().unwrap();
        let found = parts.iter().find(|part| part["name"] == "clickhouse");
        found.unwrap().clone()
    }

    /// Asserts that banner, health and metric report the problem, and the log does so once.
    pub fn assert_reports(&self, case: &str, words: &str) {
        let banner = self.server.banner();
        assert!(
            banner.contains("But ClickHouse cannot be used"),
            "{case}: {banner}"
        );
        assert!(banner.contains(words), "{case}: {banner}");
        let part = self.part();
        assert_eq!(
            (&part["status"], &part["required"]),
            (&json!("failed"), &json!(false))
        );
        let detail = part["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{case}: {detail}");
        let log = self.log();
        let reports: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("what needs ClickHouse waits"))
            .collect();
        assert_eq!(reports.len(), 1, "{case}: {log}");
        assert!(reports[0].contains(words), "{case}: {log}");
        assert_eq!(self.metric("millrace_clickhouse_usable", ""), 0.0, "{case}");
    }

    /// Asserts that failed inserts, and queries before them, count as `misconfigured`.
    /// `may_be_else` is for problems that look like a restarting server.
    pub fn assert_counts_as_misconfigured(&self, may_be_else: bool) {
        let label = if may_be_else {
            ""
        } else {
            "outcome=\"misconfigured\""
        };
        let retries = |label| self.metric("millrace_insert_retries_total", label);
        eventually("tries", || (retries(label) >= 3.0).then_some(()));
        if !may_be_else {
            assert_eq!(retries("outcome=\"question\""), 0.0);
        }
    }

    /// Asserts that all reports are withdrawn, without a restart.
    fn assert_withdraws(&self, case: &str) {
        eventually(case, || (self.part()["status"] == "ok").then_some(()));
        assert_eq!(self.part()["detail"], Value::Null, "{case}");
        assert_eq!(self.metric("millrace_clickhouse_usable", ""), 1.0, "{case}");
        assert!(
            self.log().contains("ClickHouse can be used again"),
            "{case}"
        );
    }

    fn metric(&self, name: &str, label: &str) -> f64 {
        let text = metrics::read(&self.server.credential("health_url")).unwrap();
        metrics::sum(&text, name, label)
    }
}

/// Faults of ClickHouse or a gateway, the reported text, and true if an operator must fix the
/// problem: the others may pass.
static CASES: [(&str, &str, bool); 8] = [
    (
        "answer=403:516",
        "set clickhouse_user and clickhouse_password",
        true,
    ),
    ("answer=403:497", "has not granted", true),
    ("with=readonly=1", "read only", true),
    ("answer=404:81", "lacks the database millrace", true),
    ("down", "does not answer; check clickhouse_url", false),
    (
        "answer=502",
        "is not ClickHouse; check the address, port and path",
        false,
    ),
    ("answer=404", "404", false),
    ("answer=200", "X-ClickHouse-Query-Id is missing", false),
];

#[test]
fn an_unusable_clickhouse_is_reported_at_the_start_until_fixed() {
    // Two halves beside each other, as they wait for tries most of the time.
    std::thread::scope(|scope| {
        for cases in CASES.chunks(CASES.len() / 2) {
            scope.spawn(move || assert_reported_until_fixed(cases));
        }
    });
}

fn assert_reported_until_fixed(cases: &[(&str, &str, bool)]) {
    let dir = TempDir::new().unwrap();
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    // One for all, as ClickHouse takes the rows of one catalog only.
    let catalog = dir.path().join("catalog.db");
    let catalog = format!("sqlite://{}?mode=rwc", catalog.display());
    for (number, &(rule, words, is_misconfigured)) in cases.iter().enumerate() {
        proxy.set(rule.parse().unwrap());
        let [ingest, admin] = ["ingest", "admin"].map(|mode| {
            let data_dir = dir.path().join(format!("{mode}-{number}"));
            let url = proxy.url();
            let at = [
                ["--clickhouse-url", url.as_str()],
                ["--database-url", &catalog],
                ["--secret-key", SECRET_KEY],
            ];
            let monitored = MonitoredServer::start_mode(mode, &data_dir, &at.concat());
            monitored.assert_reports(&format!("{mode}, {rule}"), words);
            monitored
        });
        let event = json!([{"event": rule, "distinct_id": "d"}]);
        ingest.server.capture(&event);
        ingest.assert_counts_as_misconfigured(!is_misconfigured);
        proxy.lift();
        for monitored in [&ingest, &admin] {
            monitored.assert_withdraws(rule);
        }
        eventually(rule, || {
            let there = engine.query("EXISTS millrace.events") == "1";
            let stored = || engine.query("SELECT count() FROM millrace.events");
            (there && stored() == (number + 1).to_string()).then_some(())
        });
        for monitored in [ingest, admin] {
            assert!(monitored.server.stop().success(), "{rule}");
        }
    }
}

#[test]
fn a_wrong_password_is_logged_once_by_each_part_and_withdrawn_when_fixed() {
    let dir = TempDir::new().unwrap();
    let mut engine = Engine::start(&dir.path().join("engine"), "changed-password-of-tests");
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    let monitored = MonitoredServer::start_mode(
        "serve",
        &dir.path().join("serve"),
        &["--clickhouse-url", &proxy.url()],
    );
    monitored.assert_reports("serve", "set clickhouse_user and clickhouse_password");
    let before = |words: &str| monitored.log().matches(words).count();
    // Rounds of persons start every two seconds: several have failed by then.
    eventually("what persons say", || {
        (before("persons are not up to date") > 0).then_some(())
    });
    monitored
        .server
        .capture(&json!([{"event": "e", "distinct_id": "d", "properties": {"$set": {"a": 1}}}]));
    let asked = proxy.counts().requests;
    eventually("more requests", || {
        (proxy.counts().requests > asked + 12).then_some(())
    });
    assert_eq!(
        before("persons are not up to date"),
        1,
        "{}",
        monitored.log()
    );
    assert_eq!(
        before("what needs ClickHouse waits"),
        1,
        "{}",
        monitored.log()
    );
    engine.kill();
    engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    proxy.set_upstream(&engine.url).unwrap();
    monitored.assert_withdraws("serve");
    eventually("the person", || {
        let there = engine.query("EXISTS millrace.persons") == "1";
        (there && engine.query("SELECT count() FROM millrace.persons FINAL") == "1").then_some(())
    });
    eventually("persons that are kept again", || {
        monitored
            .log()
            .contains("persons are kept again")
            .then_some(())
    });
}
