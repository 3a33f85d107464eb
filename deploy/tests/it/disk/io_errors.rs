//! Failing disk: system calls of the real binary that `strace` lets fail.
//!
//! The commit thread of the live lane is traced alone, and one client sends one request after the
//! other, so that each request is one write and one sync of that thread: the request that must fail
//! is known.

use super::print_to_stderr;
use crate::clickhouse_outage::test_env::{Load, TestEnv};
use crate::server::{DEADLINE, eventually};
use millrace_load::crash::strace::Strace;
use millrace_load::ledger::AckLedgerWriter;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// System call that fails once: its error, and its number among those of the thread.
#[derive(Clone, Copy, Debug)]
struct SyscallFault {
    call: &'static str,
    error: &'static str,
    nth: u32,
}

const fn fault(call: &'static str, error: &'static str, nth: u32) -> SyscallFault {
    SyscallFault { call, error, nth }
}

/// Waits for the thread of a process that has this name.
fn thread_of(pid: Pid, name: &str) -> Pid {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    eventually(name, || {
        let mut tasks = std::fs::read_dir(&tasks).unwrap().map(|task| task.unwrap());
        let found = tasks.find(|task| {
            let comm = std::fs::read_to_string(task.path().join("comm"));
            comm.is_ok_and(|comm| comm.trim() == name)
        });
        let tid = found?.file_name();
        Pid::from_raw(tid.to_str()?.parse().ok()?)
    })
}

/// Attaches strace to a thread; prints the reason if it may not.
fn attach(
    pid: Pid,
    calls: &str,
    fault: SyscallFault,
    options: &[&str],
    trace: &Path,
) -> Option<Strace> {
    let SyscallFault { call, error, nth } = fault;
    let injection = format!("{call}:error={error}:when={nth}");
    match Strace::inject(pid, calls, &injection, options, trace).unwrap() {
        Ok(strace) => Some(strace),
        Err(reason) => {
            print_to_stderr(&format!(
                "NOT TESTED: {fault:?}: strace may not attach: {reason}"
            ));
            None
        }
    }
}

/// Client that posts single events and records those that are acknowledged.
struct Client {
    agent: ureq::Agent,
    url: String,
    key: String,
    run: u32,
    ledger: AckLedgerWriter,
    sent: u32,
    /// Body of the last response.
    response_text: String,
}

impl Client {
    fn new(env: &TestEnv, run: u32) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        Self {
            agent: config.build().into(),
            url: format!("{}/batch/", env.server.credential("ingest_url")),
            key: env.server.credential("project_api_key"),
            run,
            ledger: AckLedgerWriter::begin(&env.ledger(), run, 1).unwrap(),
            sent: 0,
            response_text: String::new(),
        }
    }

    fn post(&mut self) -> u16 {
        let batch = self.sent;
        self.sent += 1;
        let uuid = millrace_load::event_id::EventId {
            run: self.run,
            connection: 0,
            batch,
            index: 0,
        };
        let event: Value =
            json!({"event": "e", "distinct_id": "me", "uuid": uuid.to_uuid().to_string()});
        let body = json!({"api_key": self.key, "batch": [event]});
        self.response_text.clear();
        let Ok(mut answer) = self.agent.post(&self.url).send(body.to_string()) else {
            return 0;
        };
        let status = answer.status().as_u16();
        // A body that breaks off with the process is empty.
        self.response_text = answer.body_mut().read_to_string().unwrap_or_default();
        if status == 200 {
            self.ledger.acknowledged(0, batch, 1).unwrap();
        }
        status
    }
}

/// Seconds between the failed call and the end of the process, by the trace. Asserts that the
/// thread did no I/O in between.
fn seconds_to_end(trace: &str, fault: SyscallFault) -> f64 {
    let at = |line: &str| line.split(' ').next().unwrap().parse::<f64>().unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let failed = lines.iter().position(|line| line.contains("(INJECTED)"));
    let failed = failed.unwrap_or_else(|| panic!("{fault:?} never happened: {trace}"));
    let ended = lines
        .iter()
        .position(|line| line.contains("+++ exited with 1"));
    let ended = ended.unwrap_or_else(|| panic!("{fault:?}: no end: {trace}"));
    let between = &lines[failed + 1..ended];
    let again = between
        .iter()
        .any(|line| line.contains("sync(") || line.contains("write"));
    assert!(!again, "{fault:?} was tried again: {trace}");
    at(lines[ended]) - at(lines[failed])
}

/// Sends requests until one fails, after which the server must end; returns the seconds that this
/// took, by the trace.
fn fail_once(
    env: &mut TestEnv,
    run: u32,
    fault: SyscallFault,
    is_first_segment: bool,
) -> Option<f64> {
    let mut client = Client::new(env, run);
    if !is_first_segment {
        assert_eq!(client.post(), 200);
    }
    let thread = thread_of(env.server.pid(), "commit-live");
    let trace = env.dir.path().join(format!("trace-{run}"));
    let calls = "fdatasync,fsync,pwritev,pwrite64,fallocate,ftruncate,?open,openat";
    let strace = attach(thread, calls, fault, &[], &trace)?;
    if !is_first_segment {
        for _ in 1..fault.nth {
            assert_eq!(client.post(), 200, "before {fault:?}");
        }
    }
    let status = client.post();
    assert!([0, 503].contains(&status), "{fault:?}: {status}");
    // Only the next start knows if the event is stored.
    let says_nothing_is_stored = client.response_text.contains("Nothing was stored");
    assert!(
        !says_nothing_is_stored,
        "{fault:?}: {}",
        client.response_text
    );
    let started = Instant::now();
    // No later event is acknowledged either, until the process has ended.
    loop {
        match client.post() {
            0 => break,
            status => assert_eq!(status, 503, "after {fault:?}"),
        }
        assert!(started.elapsed() < DEADLINE, "{fault:?}: it goes on");
    }
    assert_eq!(env.server.wait().code(), Some(1), "{fault:?}");
    Some(seconds_to_end(&strace.trace().unwrap(), fault))
}

#[test]
fn a_failed_write_or_sync_acknowledges_nothing_and_ends_the_process() {
    let mut env = TestEnv::start(&[]);
    let segment = [
        fault("openat", "EIO", 1),
        fault("fallocate", "EIO", 1),
        fault("pwritev", "EIO", 1),
        fault("fdatasync", "EIO", 1),
        fault("fsync", "EIO", 1),
        fault("fdatasync", "EIO", 2),
        fault("pwritev", "ENOSPC", 2),
    ];
    let frames = [1, 2, 3, 5, 8, 13].map(|nth| {
        let call = ["fdatasync", "pwritev"][nth as usize % 2];
        [fault(call, "EIO", nth), fault("fdatasync", "ENOSPC", nth)]
    });
    let faults = segment
        .map(|fault| (fault, true))
        .into_iter()
        .chain(frames.into_iter().flatten().map(|fault| (fault, false)));
    let mut longest: f64 = 0.0;
    for (run, (fault, is_first_segment)) in (1..).zip(faults) {
        let Some(seconds) = fail_once(&mut env, run, fault, is_first_segment) else {
            return;
        };
        longest = longest.max(seconds);
        env.restart_server();
    }
    println!("MEASURED: ended within {longest:.3} s of the failed call at the most");
    env.assert_exactly_once("millrace.events");
}

#[test]
fn a_segment_without_disk_space_is_answered_503_until_there_is_space() {
    let mut env = TestEnv::start(&[]);
    let faults = [
        fault("openat", "ENOSPC", 1),
        fault("openat", "EMFILE", 1),
        fault("fallocate", "ENOSPC", 1),
        fault("fallocate", "EDQUOT", 1),
        fault("pwritev", "ENOSPC", 1),
    ];
    for (run, fault) in (1..).zip(faults) {
        let mut client = Client::new(&env, run);
        let thread = thread_of(env.server.pid(), "commit-live");
        let trace = env.dir.path().join(format!("trace-{run}"));
        let Some(_strace) = attach(thread, fault.call, fault, &[], &trace) else {
            return;
        };
        assert_eq!(client.post(), 503, "{fault:?}");
        assert_eq!(client.post(), 200, "after {fault:?}");
        // Only the first request after a start always creates a segment.
        env.restart_server();
    }
    env.assert_exactly_once("millrace.events");
}

#[test]
fn no_failed_system_call_loses_or_doubles_an_acknowledged_event() {
    let mut env = TestEnv::start(&[]);
    let calls = [
        ("fdatasync", "EIO"),
        ("pwritev", "EIO"),
        ("pwritev", "ENOSPC"),
        ("fsync", "EIO"),
        ("?rename,?renameat,?renameat2", "EIO"),
        ("?unlink,unlinkat", "EIO"),
        ("ftruncate", "EIO"),
        ("fallocate", "EIO"),
        ("fallocate", "ENOSPC"),
        ("pread64", "EIO"),
    ];
    let mut ended = 0;
    for (number, (call, error)) in calls.into_iter().enumerate() {
        let nth = 1 + number as u32 % 3;
        let trace = env.dir.path().join(format!("all-{number}"));
        let fault = fault(call, error, nth);
        let Some(mut strace) = attach(env.server.pid(), call, fault, &["-f"], &trace) else {
            return;
        };
        let load = Load::start(env.plan(4_000.0));
        eventually("enough of it", || {
            let is_over = strace.has_ended().unwrap() || load.acknowledged() > 8_000;
            is_over.then_some(())
        });
        if load.try_end().is_err() {
            // The fault hit the server itself, before the load could connect.
            eventually("its end", || strace.has_ended().unwrap().then_some(()));
        }
        if strace.has_ended().unwrap() {
            ended += 1;
            assert_eq!(env.server.wait().code(), Some(1), "{fault:?}");
        }
        drop(strace);
        env.restart_server();
    }
    assert!(ended >= 3, "{ended} of them met anything");
    env.assert_exactly_once("millrace.events");
}
