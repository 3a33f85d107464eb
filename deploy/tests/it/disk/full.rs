//! Disk that another process fills up: 503 until there is space again, and no event is lost.

use super::{SmallDisk, is_in_mount_namespace};
use crate::clickhouse_outage::test_env::{Load, TestEnv, exactly_once, post_event};
use crate::server::{Server, allow_imports, ask, eventually, run};
use millrace_load::clickhouse::ClickHouse;
use millrace_load::crash::disk::FileSystem;
use millrace_load::credentials::Credentials;
use millrace_load::{Mode, Plan};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

/// File that takes all free space, also space that becomes free.
pub struct DiskFiller {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl DiskFiller {
    /// Starts to fill the disk; returns when it is full.
    pub fn start(path: PathBuf) -> Self {
        let mut file = File::create(&path).unwrap();
        let mut fill = move || {
            // The last bytes one by one.
            for bytes in [1 << 20, 4096, 1] {
                while file.write_all(&vec![7; bytes]).is_ok() {}
            }
        };
        fill();
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Acquire) {
                fill();
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { path, stop, thread }
    }

    /// Frees the space.
    pub fn end(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap();
        std::fs::remove_file(self.path).unwrap();
    }
}

fn heavy(plan: Plan) -> Plan {
    Plan {
        mode: Mode::Closed,
        batch_events: 100,
        event_bytes: Plan::EVENT_BYTES_DEFAULT,
        historical_share: 0.2,
        ..plan
    }
}

/// Waits until requests are rejected, however long that takes, as long as others are accepted.
fn until_refused(load: &Load) {
    while load.failed() == 0 {
        let before = load.acknowledged();
        eventually("a full disk, or a fuller one", || {
            (load.failed() > 0 || load.acknowledged() > before).then_some(())
        });
    }
}

fn refuse_and_recover(disk: &str, dir: TempDir, ingest_dir: &Path) {
    let mut env = TestEnv::start_in(dir, &[]);
    let key = env.server.credential("project_api_key");
    let data_dir = ingest_dir.to_str().unwrap();
    let create = ["keys", "create", "--data-dir", data_dir, "--project"];
    let made = run(&[&create[..], &["Second"]].concat());
    assert!(made.status.success(), "{made:?}");
    let listed = run(&["keys", "list", "--data-dir", data_dir]);
    let text = String::from_utf8(listed.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("Second")).unwrap();
    let unused = line
        .split_whitespace()
        .find(|word| word.starts_with("phc_"));
    let unused = unused.unwrap_or_else(|| panic!("no key in {line}"));

    let load = Load::start(heavy(env.plan(1.0)));
    load.until_acknowledged(1_000);
    let filler = DiskFiller::start(ingest_dir.join("foreign"));
    until_refused(&load);
    let (status, seconds) = eventually("a refusal", || {
        Some(env.post_event(&key)).filter(|(status, _)| *status != 200)
    });
    assert_eq!(status, 503, "{disk}");
    assert!(seconds.is_some_and(|seconds| seconds > 0), "{seconds:?}");
    // A key that is not cached is found all the same.
    let (status, _) = env.post_event(unused);
    assert!([200, 503].contains(&status), "{disk}: {status}");
    let failed = run(&[&create[..], &["Third"]].concat());
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(
        failed.status.success() || said.contains("disk"),
        "{disk}: {said}"
    );

    filler.end();
    eventually("space", || (env.post_event(&key).0 == 200).then_some(()));
    load.until_acknowledged(1_000);
    let failures = load.end().failures;
    assert_eq!(failures.keys().collect::<Vec<_>>(), ["status 503"]);
    let made = run(&[&create[..], &["Fourth"]].concat());
    assert!(made.status.success(), "{disk}: {made:?}");
    let acknowledged = env.assert_exactly_once("millrace.events");
    assert_eq!(env.metric("millrace_log_damaged_total", ""), 0.0);
    env.restart_server();
    assert_eq!(env.assert_exactly_once("millrace.events"), acknowledged);
}

#[test]
fn a_full_disk_answers_503_and_recovers_by_itself() {
    if !is_in_mount_namespace("disk::full::a_full_disk_answers_503_and_recovers_by_itself") {
        return;
    }
    for name in ["tmpfs", "ext4"] {
        let dir = TempDir::new().unwrap();
        let ingest_dir = dir.path().join("ingest");
        let disk = match name {
            "tmpfs" => Some(SmallDisk::tmpfs(&ingest_dir, "64m")),
            _ => SmallDisk::on_loop(FileSystem::Ext4, &ingest_dir, 64 << 20),
        };
        if let Some(_disk) = disk {
            refuse_and_recover(name, dir, &ingest_dir);
        }
    }
}

#[test]
fn a_full_disk_refuses_and_counts_what_is_lost_with_ack_memory() {
    if !is_in_mount_namespace(
        "disk::full::a_full_disk_refuses_and_counts_what_is_lost_with_ack_memory",
    ) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let ingest_dir = dir.path().join("ingest");
    let _disk = SmallDisk::tmpfs(&ingest_dir, "64m");
    let env = TestEnv::start_in(dir, &["--ack", "memory"]);
    let key = env.server.credential("project_api_key");
    let load = Load::start(heavy(env.plan(1.0)));
    load.until_acknowledged(1_000);
    let filler = DiskFiller::start(ingest_dir.join("foreign"));
    until_refused(&load);
    filler.end();
    eventually("space", || (env.post_event(&key).0 == 200).then_some(()));
    load.until_acknowledged(1_000);
    let summary = load.end();
    let failures = summary.failures.keys().collect::<Vec<_>>();
    assert_eq!(failures, ["status 503"]);
    eventually("all that was not lost", || {
        let lost = env.metric("millrace_log_rows_lost_total", "");
        let stored = env
            .engine
            .query("SELECT uniqExact(uuid) FROM millrace.events");
        let stored: f64 = stored.parse().unwrap();
        (stored + lost >= summary.run.acknowledged_events as f64).then_some(())
    });
    let once = "SELECT count() = uniqExact(uuid) FROM millrace.events";
    assert_eq!(env.engine.query(once), "1", "stored twice");
}

#[test]
fn a_full_disk_with_the_engine_on_it_recovers_by_itself() {
    if !is_in_mount_namespace("disk::full::a_full_disk_with_the_engine_on_it_recovers_by_itself") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    let _disk = SmallDisk::tmpfs(&data_dir, "256m");
    let server = Server::start(&data_dir);
    // Without approval, past events above 10 000 a minute get 429, however full the disk is.
    allow_imports(&["--data-dir", data_dir.to_str().unwrap()]);
    server.wait_for("EXISTS millrace.server_runs", "1");
    server.query(
        "ALTER TABLE millrace.events MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1",
    );
    let (url, key) = (
        server.credential("ingest_url"),
        server.credential("project_api_key"),
    );
    let ledger = dir.path().join("ledger");
    let load = Load::start(Plan {
        connections: 4,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(24 * 3_600),
        ledger: Some(ledger.clone()),
        ..heavy(Plan::new(&url, &key))
    });
    load.until_acknowledged(1_000);
    let filler = DiskFiller::start(data_dir.join("foreign"));
    until_refused(&load);
    let organization = server.credential("organization_id");
    let projects = format!("/api/organizations/{organization}/projects/");
    // Changes may fit space that was allocated before; if not, the error is the server's.
    for number in 0..50 {
        let body = json!({"name": format!("Full {number}")});
        let (status, answer) = ask(&server, "POST", &projects, &body);
        assert!(status == 201 || status >= 500, "{status} {answer}");
    }
    filler.end();
    eventually("space", || {
        (post_event(&server, &key).0 == 200).then_some(())
    });
    load.until_acknowledged(1_000);
    let failures = load.end().failures;
    assert_eq!(failures.keys().collect::<Vec<_>>(), ["status 503"]);
    let (status, answer) = ask(&server, "POST", &projects, &json!({"name": "Room"}));
    assert_eq!(status, 201, "{answer}");
    let credentials = Credentials::read(&server.credentials_path()).unwrap();
    exactly_once(&ledger, &ClickHouse::of(&credentials));
}
