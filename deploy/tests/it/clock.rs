//! Jumps of the time of day by days, forward and back, while a server runs and between its starts:
//! only functions of the time of day may change.
//!
//! The server's clock is libfaketime's: it reads an offset from a file at every look at the time
//! of day. Timers use another clock, which does not jump, as on a real machine.

use crate::nodes::exports_watermark;
use crate::server::{DEADLINE, Server, ask, eventually, get, on_own_ports, post, run};
use millrace_rows::{Clock, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// Offsets of the clock, in days from now.
const DAYS: [i32; 7] = [0, 1, -1, 3, -3, 1, 0];
/// Tolerated difference of a time from the clock, in seconds, for slow machines.
const NEAR_SECONDS: i64 = 3_600;

/// Server whose clock the test sets.
struct FakeClockServer {
    home: TempDir,
    server: Option<Server>,
    args: Vec<String>,
    /// All processes that were started with libfaketime.
    pids: Vec<Pid>,
}

impl FakeClockServer {
    fn start(args: &[&str]) -> Self {
        let mut clocked = Self {
            home: TempDir::new().unwrap(),
            server: None,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            pids: Vec::new(),
        };
        clocked.set(0);
        clocked.run();
        clocked
    }

    fn data_dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    fn run(&mut self) {
        assert!(
            Path::new(LIBRARY).exists(),
            "{LIBRARY}; run `make test-setup`"
        );
        let mut command = on_own_ports("serve", &self.data_dir());
        command
            .args(&self.args)
            .env("LD_PRELOAD", LIBRARY)
            .env("FAKETIME_TIMESTAMP_FILE", self.home.path().join("offset"))
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let server = Server::start_command(&mut command, &self.data_dir());
        self.pids.push(server.pid());
        self.server = Some(server);
    }

    /// Sets the clock this many days from now. Other readers see the old offset or the new one.
    fn set(&self, days: i32) {
        let path = self.home.path().join("offset");
        let new = path.with_extension("new");
        std::fs::write(&new, format!("{days:+}d\n")).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    fn restart(&mut self, days: i32) {
        assert!(self.server.take().unwrap().stop().success());
        self.set(days);
        self.run();
    }
}

impl Drop for FakeClockServer {
    /// Removes the shared memory of libfaketime, which a killed process leaves.
    fn drop(&mut self) {
        drop(self.server.take());
        for pid in &self.pids {
            let pid = pid.as_raw_nonzero();
            for name in ["faketime_shm", "sem.faketime_sem"] {
                // A process that ended by itself has removed it.
                let _ = std::fs::remove_file(format!("/dev/shm/{name}_{pid}"));
            }
        }
    }
}

/// Posts an event without a time, and waits until it is stored once with the time of the clock. Its
/// `created_at` is no earlier than what exports may have passed, which is today.
fn assert_event_passes(server: &Server, name: &str, days: i32) {
    server.capture(&json!([{"event": name, "distinct_id": "a"}]));
    let table = "millrace.events WHERE event";
    server.wait_for(&format!("SELECT count() FROM {table} = '{name}'"), "1");
    for (column, days) in [("created_at", days.max(0)), ("timestamp", days)] {
        // The test's own clock is right, as is that of the engine, which gets nothing of our
        // environment.
        let sql = format!("SELECT toUnixTimestamp({column}) FROM {table} = '{name}'");
        let stored: i64 = server.query(&sql).parse().unwrap();
        let expected = now_seconds() + i64::from(days) * 86_400;
        assert!(
            (stored - expected).abs() < NEAR_SECONDS,
            "{column} of {name}: {stored}, not {expected}"
        );
    }
}

/// Asserts that a clock that is wrong for less than minutes moves exports neither ahead nor back.
fn exports_go_with_the_real_time(clocked: &FakeClockServer) {
    let far = eventually("a watermark", || exports_watermark(&clocked.data_dir()));
    let off = far / 1_000_000 - now_seconds();
    assert!(
        off.abs() < NEAR_SECONDS,
        "exports may go up to {off} s from now"
    );
}

fn now_seconds() -> i64 {
    SystemClock.now().0 / 1_000_000
}

#[test]
fn events_are_stored_whatever_the_clock_does_while_running_and_between_starts() {
    let mut clocked = FakeClockServer::start(&[]);
    for (number, days) in DAYS.into_iter().enumerate() {
        clocked.set(days);
        assert_event_passes(clocked.server(), &format!("running {number}"), days);
        exports_go_with_the_real_time(&clocked);
    }
    for (number, days) in DAYS.into_iter().enumerate() {
        clocked.restart(days);
        assert_event_passes(clocked.server(), &format!("started {number}"), days);
        exports_go_with_the_real_time(&clocked);
    }
    let all = "SELECT count(), uniqExact(uuid) FROM millrace.events";
    assert_eq!(clocked.server().query(all), "14\t14", "none twice");
}

/// Runs a test of each jump, in days, beside each other, as it waits for most of its time.
fn after_each_jump(jumps: &[i32], test: fn(i32)) {
    std::thread::scope(|scope| {
        for days in jumps {
            scope.spawn(move || test(*days));
        }
    });
}

#[test]
fn retries_to_clickhouse_do_not_follow_the_clock() {
    after_each_jump(&[3, -3], assert_retries);
}

/// Lets the clock jump while an insert is tried again.
fn assert_retries(days: i32) {
    let clocked = FakeClockServer::start(&[]);
    let server = clocked.server();
    assert_event_passes(server, "before", 0);
    let engine = engine_of(server);
    kill_process(engine, Signal::KILL).unwrap();
    server.capture(&json!([{"event": "meanwhile", "distinct_id": "a"}]));
    clocked.set(days);
    // Retries and the engine's restart are timers: they come soon, not in days.
    server.wait_for(
        "SELECT count() FROM millrace.events WHERE event = 'meanwhile'",
        "1",
    );
    assert_event_passes(server, "after", days);
}

/// Process of the embedded engine, the server's only child.
fn engine_of(server: &Server) -> Pid {
    let pid = server.pid().as_raw_nonzero();
    let children = format!("/proc/{pid}/task");
    let child = eventually("the engine's process", || {
        std::fs::read_dir(&children).ok()?.find_map(|thread| {
            let list = std::fs::read_to_string(thread.ok()?.path().join("children")).ok()?;
            list.split_whitespace().next()?.parse().ok()
        })
    });
    Pid::from_raw(child).unwrap()
}

#[test]
fn limits_and_caches_do_not_follow_the_clock() {
    after_each_jump(&[1, -1, 3, -3], assert_limits_and_caches);
}

/// Lets the clock jump while keys are cached and requests are counted.
fn assert_limits_and_caches(days: i32) {
    const REQUESTS: u32 = 40;
    let limit = REQUESTS.to_string();
    let clocked = FakeClockServer::start(&["--admin-requests-per-minute-max", &limit]);
    let server = clocked.server();
    let url = format!("{}/api/organizations/", server.credential("admin_url"));
    let bearer = format!("Bearer {}", server.credential("personal_api_key"));
    let asked = || get(&url, &[("authorization", &bearer)]).0;
    let key = made_key(&clocked);
    let event = json!({"api_key": key, "event": "e", "distinct_id": "a"});
    assert_eq!(server.post("/e/", &event).0, 200);
    clocked.set(days);
    // Known keys stay valid, unknown ones invalid, and a revoked one ends.
    assert_eq!(server.post("/e/", &event).0, 200, "{days} days");
    let unknown = json!({"api_key": "phc_unknown", "event": "e", "distinct_id": "a"});
    assert_eq!(server.post("/e/", &unknown).0, 401, "{days} days");
    let data_dir = clocked.data_dir();
    let revoked = run(&[
        "keys",
        "revoke",
        &key,
        "--data-dir",
        data_dir.to_str().unwrap(),
    ]);
    assert!(revoked.status.success(), "{revoked:?}");
    eventually("the key's end", || {
        (server.post("/e/", &event).0 == 401).then_some(())
    });
    let answers: Vec<_> = (0..=REQUESTS).map(|_| asked()).collect();
    assert_eq!(answers.last(), Some(&429), "{days} days");
    clocked.set(-days);
    let retry_after = retry_after_seconds(&url, &bearer);
    assert!(
        retry_after <= DEADLINE.as_secs(),
        "{days} days: wait {retry_after} s"
    );
}

fn made_key(clocked: &FakeClockServer) -> String {
    let data_dir = clocked.data_dir();
    let made = run(&[
        "keys",
        "create",
        "--project",
        "Shop",
        "--data-dir",
        data_dir.to_str().unwrap(),
    ]);
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

/// `Retry-After` of a response that must be 429.
fn retry_after_seconds(url: &str, bearer: &str) -> u64 {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let answer = agent
        .get(url)
        .header("authorization", bearer)
        .call()
        .unwrap();
    assert_eq!(answer.status().as_u16(), 429, "the clock buys no request");
    answer.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn an_invite_expires_by_the_time_of_day_only() {
    let clocked = FakeClockServer::start(&[]);
    let server = clocked.server();
    let invites = "/api/organizations/@current/invites/";
    let invite = json!({"target_email": "grace@example.com", "level": 1});
    assert_eq!(ask(server, "POST", invites, &invite).0, 201);
    let data_dir = clocked.data_dir();
    let args = ["invites", "create", "--email", "ada@example.com"];
    let made = run(&[&args[..], &["--data-dir", data_dir.to_str().unwrap()]].concat());
    assert!(made.status.success(), "{made:?}");
    let link = String::from_utf8(made.stdout).unwrap();
    let api = link
        .lines()
        .next()
        .unwrap()
        .replace("/signup/", "/api/signup/");
    let is_expired = || {
        let (status, listed) = ask(server, "GET", invites, &Value::Null);
        assert_eq!(status, 200, "{listed}");
        listed["results"][0]["is_expired"].clone()
    };
    for (days, expired) in [(0, false), (1, false), (-1, false), (4, true), (-3, false)] {
        clocked.set(days);
        assert_eq!(is_expired(), json!(expired), "after {days} days");
    }
    let sign_up = json!({"first_name": "Ada", "last_name": "L"}).to_string();
    clocked.set(4);
    assert_eq!(post(&format!("{api}/"), &sign_up).0, 400, "after its end");
    clocked.set(1);
    assert_eq!(post(&format!("{api}/"), &sign_up).0, 201, "before it");
}
