//! Tests of the supervisor, and of the errors of a process that cannot start.

use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use millrace_embedded::testing::supervised_command;
use millrace_embedded::{
    EXIT_PERMANENT_FAILURE, EngineError, EngineOptions, State, Status, Supervisor,
    SupervisorOptions, find_library, run,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn wait_for(
    status: &mut watch::Receiver<Status>,
    good: impl FnMut(&Status) -> bool,
) -> Status {
    tokio::time::timeout(Duration::from_secs(60), status.wait_for(good))
        .await
        .expect("in a minute")
        .unwrap()
        .clone()
}

#[tokio::test]
async fn a_killed_engine_is_started_again_on_the_same_port_and_ends_with_the_supervisor() {
    let data_dir = tempfile::tempdir().unwrap();
    let path = data_dir.path().to_owned();
    let supervisor = Supervisor::start(SupervisorOptions::default(), move |address| {
        supervised_command(&path, address.unwrap_or(ANY))
    })
    .unwrap();
    let mut status = supervisor.status();
    let first = wait_for(&mut status, |status| {
        matches!(status.state, State::Up { .. })
    })
    .await;
    let State::Up { address, .. } = first.state else {
        panic!("{first:?}")
    };
    let pid = first.pid.unwrap();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    let again = wait_for(&mut status, |status| {
        status.restarts == 1 && matches!(status.state, State::Up { .. }) && status.pid != Some(pid)
    })
    .await;
    let State::Up {
        address: address_again,
        ..
    } = again.state
    else {
        panic!("{again:?}")
    };
    assert_eq!(address_again, address);
    assert!(again.last_exit.unwrap().contains("signal: 9"));
    tokio::task::spawn_blocking(move || supervisor.stop())
        .await
        .unwrap();
    assert_eq!(status.borrow().state, State::Stopped);
    assert!(
        TcpListener::bind(address).is_ok(),
        "the engine's port is free again"
    );
}

#[tokio::test]
async fn a_process_that_hangs_is_started_again_when_asked() {
    let supervisor = Supervisor::start(SupervisorOptions::default(), |_| {
        let mut command = Command::new("sh");
        // Deaf to SIGTERM.
        let script = "trap '' TERM; echo millrace-clickhouse ready 127.0.0.1:1; exec sleep 600";
        command.args(["-c", script]);
        command
    })
    .unwrap();
    let mut status = supervisor.status();
    for restarts in 0..2 {
        let up = wait_for(&mut status, |status| {
            status.restarts == restarts && matches!(status.state, State::Up { .. })
        });
        let pid = up.await.pid;
        supervisor.restarter().restart();
        let again = wait_for(&mut status, |status| status.restarts > restarts).await;
        assert_ne!(again.pid, pid);
        let last_exit = again.last_exit.unwrap();
        assert_eq!(last_exit, "a restart was asked for");
    }
    tokio::task::spawn_blocking(move || supervisor.stop())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_process_that_cannot_start_is_restarted_and_its_last_stderr_line_is_kept() {
    let options = SupervisorOptions {
        backoff_min: Duration::from_millis(1),
        ..SupervisorOptions::default()
    };
    let supervisor = Supervisor::start(options, |_| {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no engine here >&2; exit 3"]);
        command
    })
    .unwrap();
    let mut status = supervisor.status();
    let seen = wait_for(&mut status, |status| status.restarts >= 3).await;
    assert!(
        seen.last_exit
            .as_ref()
            .unwrap()
            .ends_with("last words: no engine here"),
        "{seen:?}"
    );
}

#[tokio::test]
async fn whatever_a_process_writes_its_last_line_is_kept() {
    let long = format!("{} … (34464 bytes cut)", "a".repeat(64 << 10));
    let table = [
        ("printf 'not \\377 UTF-8\\n' >&2", "not \u{fffd} UTF-8"),
        (
            "printf '\\377\\n' >&2; echo no engine here >&2",
            "no engine here",
        ),
        ("head -c 100000 /dev/zero | tr '\\0' a >&2", long.as_str()),
        (
            "head -c 9000000 /dev/zero | tr '\\0' a >&2; echo >&2; echo no engine here >&2",
            "no engine here",
        ),
    ];
    for (writes, expected) in table {
        let supervisor = Supervisor::start(SupervisorOptions::default(), move |_| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{writes}; exit 3")]);
            command
        })
        .unwrap();
        let seen = wait_for(&mut supervisor.status(), |status| status.restarts >= 1).await;
        assert_eq!(seen.last_stderr_line.as_deref(), Some(expected), "{writes}");
        tokio::task::spawn_blocking(move || supervisor.stop())
            .await
            .unwrap();
    }
}

/// Regression: the supervisor took such a line for the end of the process, and waited for that.
#[tokio::test]
async fn a_process_that_wrote_no_utf8_is_stopped() {
    let supervisor = Supervisor::start(SupervisorOptions::default(), |_| {
        let mut command = Command::new("sh");
        let ready = "echo millrace-clickhouse ready 127.0.0.1:1";
        let script = format!("printf '\\377\\n' >&2; {ready}; exec sleep 600");
        command.args(["-c", &script]);
        command
    })
    .unwrap();
    let mut status = supervisor.status();
    wait_for(&mut status, |status| {
        matches!(status.state, State::Up { .. })
    })
    .await;
    let stopping = tokio::task::spawn_blocking(move || supervisor.stop());
    let stopped = tokio::time::timeout(Duration::from_secs(60), stopping).await;
    stopped.expect("it waits for the process").unwrap();
    assert_eq!(status.borrow().state, State::Stopped);
}

#[tokio::test]
async fn a_process_that_fails_permanently_is_restarted_only_if_it_was_up_before() {
    let table = [
        (false, State::Failed, 0),
        // The library may be upgraded while the process runs: the next start may find the new one.
        (true, State::Waiting, 2),
    ];
    for (was_up, state, restarts_min) in table {
        let options = SupervisorOptions {
            backoff_min: Duration::from_millis(1),
            ..SupervisorOptions::default()
        };
        let announce = "echo millrace-clickhouse ready 127.0.0.1:1; ";
        let ends = format!("echo no such library >&2; exit {EXIT_PERMANENT_FAILURE}");
        let script = format!("{}{ends}", if was_up { announce } else { "" });
        let supervisor = Supervisor::start(options, move |_| {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            command
        })
        .unwrap();
        let seen = wait_for(&mut supervisor.status(), |status| {
            status.state == state && status.restarts >= restarts_min
        })
        .await;
        assert_eq!(seen.last_stderr_line.as_deref(), Some("no such library"));
        assert!(was_up || seen.restarts == 0, "{seen:?}");
        tokio::task::spawn_blocking(move || supervisor.stop())
            .await
            .unwrap();
    }
}

fn options() -> (tempfile::TempDir, EngineOptions) {
    let data_dir = tempfile::tempdir().unwrap();
    let options = EngineOptions {
        library: find_library(None).unwrap(),
        data_dir: data_dir.path().join("clickhouse"),
        listen: ANY,
        native_port: None,
        direct_port: 0,
        user: "u".into(),
        password: "p".into(),
        networks: Vec::new(),
        users_dir: None,
        memory_bytes_max: 1 << 30,
        backup_dir: data_dir.path().join("clickhouse/backups"),
        sources: Vec::new(),
        shards: Vec::new(),
        is_alone: false,
    };
    (data_dir, options)
}

fn refused(options: &EngineOptions) -> EngineError {
    run(
        options,
        |_| panic!("it must not start"),
        std::future::ready(()),
    )
    .unwrap_err()
}

#[test]
fn each_startup_error_is_one_clear_sentence() {
    let (_keep, busy) = options();
    let taken = TcpListener::bind(ANY).unwrap();
    let busy = EngineOptions {
        listen: taken.local_addr().unwrap(),
        ..busy
    };
    assert!(
        refused(&busy)
            .to_string()
            .starts_with("cannot listen on 127.0.0.1:")
    );

    let (_keep, missing) = options();
    let missing = EngineOptions {
        library: "/nowhere/libchdb.so".into(),
        ..missing
    };
    assert!(
        refused(&missing)
            .to_string()
            .contains("run `npm ci --prefix deploy/embedded`")
    );

    let (_keep, other) = options();
    let other = EngineOptions {
        library: "libc.so.6".into(),
        ..other
    };
    assert!(
        refused(&other)
            .to_string()
            .contains("it has no `chdb_set_signal_handlers_enabled`")
    );

    for (name, error) in [
        ("missing", refused_library("/nowhere/libchdb.so")),
        ("other", refused_library("libc.so.6")),
    ] {
        assert!(error.is_permanent(), "{name}");
        assert!(
            error.to_string().contains("MILLRACE_LIBCHDB"),
            "{name}: {error}"
        );
    }

    let (keep, unusable) = options();
    std::fs::write(keep.path().join("clickhouse"), "a file").unwrap();
    assert!(
        refused(&unusable)
            .to_string()
            .starts_with("cannot use the ClickHouse data directory")
    );

    let table = [
        ("/nowhere/libchdb.so", "does not exist"),
        ("/etc/passwd", "is not a library"),
    ];
    for (path, why) in table {
        let found = find_library(Some(path.as_ref()));
        let message = found.unwrap_err().to_string();
        assert!(message.contains(path) && message.contains(why), "{message}");
        assert!(message.contains("MILLRACE_LIBCHDB"), "{message}");
    }
}

/// Error of a library that is refused; no folder is created for it.
fn refused_library(path: &str) -> EngineError {
    let (keep, options) = options();
    let error = refused(&EngineOptions {
        library: path.into(),
        ..options
    });
    assert_eq!(std::fs::read_dir(keep.path()).unwrap().count(), 0);
    error
}

#[test]
fn a_second_process_on_a_data_directory_is_refused_with_the_pid_of_the_first() {
    let engine = millrace_embedded::testing::TestEngine::start();
    let (_keep, second) = options();
    let second = EngineOptions {
        data_dir: engine.data_dir().unwrap().to_owned(),
        ..second
    };
    let message = refused(&second).to_string();
    assert!(
        message.contains(&format!("(pid {})", engine.pid().unwrap())),
        "{message}"
    );
}
