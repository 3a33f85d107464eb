//! Starts that cannot succeed print one sentence and exit with a code other than 0.

use crate::nodes::states;
use crate::server::{Server, error_line, eventually, free_address, millrace, on_own_ports};
use millrace_catalog::NodeState;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Starts `serve`, which must fail.
fn refused(dir: &TempDir, args: &[&str]) -> Output {
    let output = on_own_ports("serve", dir.path())
        .args(args)
        .output()
        .unwrap();
    assert!(!output.status.success(), "it started: {output:?}");
    output
}

/// Command for a mode on ports of its own, with these arguments.
fn with(mode: &str, data_dir: &Path, given: &[&str]) -> Command {
    let mut command = millrace();
    command
        .arg(mode)
        .arg("--data-dir")
        .arg(data_dir)
        .args(given);
    let flags = ["ingest", "admin", "health", "clickhouse"];
    let flags = flags.map(|name| format!("--{name}-addr"));
    for flag in flags.iter().filter(|flag| !given.contains(&flag.as_str())) {
        command.args([flag, "127.0.0.1:0"]);
    }
    command
}

/// Error of a start.
fn sentence(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    error_line(&text).to_owned()
}

#[test]
fn a_missing_engine_is_named_with_its_setting() {
    let dir = TempDir::new().unwrap();
    let output = refused(&dir, &["--libchdb", "/nonexistent/libchdb.so"]);
    let text = sentence(&output);
    assert!(
        text.contains("/nonexistent/libchdb.so") && text.contains("MILLRACE_LIBCHDB"),
        "{text}"
    );
}

#[test]
fn a_folder_in_place_of_the_engine_is_reported() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("lib");
    std::fs::create_dir(&folder).unwrap();
    let output = refused(&dir, &["--libchdb", folder.to_str().unwrap()]);
    let text = sentence(&output);
    assert!(
        text.contains("lib is a folder") && text.contains("lib/libchdb.so"),
        "{text}"
    );
}

#[test]
fn a_start_without_the_data_folder_creates_no_export_folder() {
    let dir = TempDir::new().unwrap();
    let (link, root) = (dir.path().join("data"), dir.path().join("exports"));
    std::os::unix::fs::symlink("missing/data", &link).unwrap();
    let exports = ["--export-root", root.to_str().unwrap()];
    let output = with("serve", &link, &exports).output().unwrap();
    let text = sentence(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("data folder"), "{text}");
    assert!(!root.exists(), "{text}");
}

#[test]
fn a_busy_port_is_named_with_its_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    for flag in [
        "--ingest-addr",
        "--admin-addr",
        "--health-addr",
        "--clickhouse-addr",
    ] {
        let dir = TempDir::new().unwrap();
        let output = with("serve", dir.path(), &[flag, &addr]).output().unwrap();
        let text = sentence(&output);
        assert!(!output.status.success(), "{flag}: {output:?}");
        assert!(
            text.contains(&addr) && text.contains(flag),
            "{flag}: {text}"
        );
    }
}

/// Regression: the second one was to be changed, as if another process had the address.
#[test]
fn two_settings_with_one_address_are_both_named() {
    let port = free_address().port();
    let (here, any) = (format!("127.0.0.1:{port}"), format!("0.0.0.0:{port}"));
    let mapped = format!("[::ffff:127.0.0.1]:{port}");
    let (here, any, mapped) = (here.as_str(), any.as_str(), mapped.as_str());
    for [flag, address, other_flag, other_address] in [
        ["--admin-addr", here, "--ingest-addr", here],
        ["--health-addr", here, "--ingest-addr", here],
        ["--ingest-addr", here, "--clickhouse-addr", here],
        ["--admin-addr", any, "--ingest-addr", here],
        ["--admin-addr", here, "--ingest-addr", any],
        ["--admin-addr", here, "--ingest-addr", mapped],
    ] {
        let dir = TempDir::new().unwrap();
        let given = [flag, address, other_flag, other_address];
        let output = with("serve", dir.path(), &given).output().unwrap();
        let text = sentence(&output);
        assert_eq!(output.status.code(), Some(64), "{given:?}: {output:?}");
        let expected = format!(
            "{flag} is {address} and {other_flag} is {other_address}: give one of them another"
        );
        assert!(text.contains(&expected), "{given:?}: {text}");
    }
}

#[test]
fn two_servers_on_one_port_do_not_share_it() {
    let (first_dir, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let first = Server::start(first_dir.path());
    let addr = first.credential("ingest_url").replace("http://", "");
    let output = millrace()
        .args([
            "serve",
            "--data-dir",
            dir.path().to_str().unwrap(),
            "--ingest-addr",
            &addr,
        ])
        .args([
            "--admin-addr",
            "127.0.0.1:0",
            "--health-addr",
            "127.0.0.1:0",
            "--clickhouse-addr",
            "127.0.0.1:0",
        ])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(sentence(&output).contains(&addr), "{}", sentence(&output));
}

#[test]
fn a_second_process_on_the_same_folder_is_refused() {
    let dir = TempDir::new().unwrap();
    let _first = Server::start(dir.path());
    let text = sentence(&refused(&dir, &[]));
    assert!(
        text.contains("another millrace") && text.contains("--data-dir"),
        "{text}"
    );
}

#[test]
fn a_start_with_a_file_as_data_folder_fails_and_names_it() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for folder in [file, &format!("{file}/below"), "/dev/null/below"] {
        for command in [&["serve"][..], &["rejected", "list"], &["keys", "list"]] {
            let mut run = with(command[0], Path::new(folder), &[]);
            if command.len() > 1 {
                run = millrace();
                run.args(command).args(["--data-dir", folder]);
            }
            let output = run.output().unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{command:?}: {text}");
            assert!(
                text.contains(folder) && text.contains("--data-dir"),
                "{command:?}: {text}"
            );
        }
    }
}

#[test]
fn a_damaged_catalog_is_named() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("catalog.db"), vec![7; 8192]).unwrap();
    let text = sentence(&refused(&dir, &[]));
    assert!(text.contains("catalog.db"), "{text}");
}

#[test]
fn an_unreadable_data_folder_is_named() {
    // Root may read everything, so the folder is made unusable for root, too.
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("log"), "in the way").unwrap();
    std::fs::set_permissions(dir.path().join("log"), PermissionsExt::from_mode(0o000)).unwrap();
    let text = sentence(&refused(&dir, &[]));
    assert!(text.contains("log"), "{text}");
}

/// Path of a library that is not the engine.
pub fn another_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut files = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let libc = files.find(|file| file.contains("/libc.so") || file.contains("/libc-"));
    libc.expect("the C library of this process").into()
}

#[test]
fn an_engine_that_can_never_start_ends_the_server_with_the_reason() {
    let another = another_library();
    let another = another.to_str().unwrap();
    let table = [
        ("/etc/passwd", "is not a library"),
        ("/nonexistent/libchdb.so", "does not exist"),
        (another, "is not the engine version"),
    ];
    for (library, why) in table {
        for mode in ["serve", "ingest", "clickhouse"] {
            for address in ["127.0.0.1:0".to_owned(), free_address().to_string()] {
                let dir = TempDir::new().unwrap();
                let data_dir = dir.path().join("data");
                let output = with(mode, &data_dir, &["--clickhouse-addr", &address])
                    .env("MILLRACE_LIBCHDB", library)
                    .output()
                    .unwrap();
                let text = sentence(&output);
                assert_eq!(output.status.code(), Some(1), "{mode} {library}: {text}");
                let names = [library, why, "MILLRACE_LIBCHDB"];
                assert!(names.iter().all(|it| text.contains(it)), "{mode}: {text}");
                // A problem that is found before loading leaves nothing; a later one leaves no node
                // that exports would wait for.
                if library == another && mode != "clickhouse" {
                    assert_eq!(states(&data_dir), [NodeState::Stopped]);
                } else if library == another {
                    // Its users, which it makes first, are all that is left.
                    assert!(!data_dir.join("clickhouse").exists(), "{mode} {library}");
                } else {
                    assert!(!data_dir.exists(), "{mode} {library}");
                }
            }
        }
    }
}

#[test]
fn an_engine_that_may_start_later_is_waited_for() {
    let dir = TempDir::new().unwrap();
    let engine = dir.path().join("clickhouse");
    std::fs::create_dir(&engine).unwrap();
    let held = File::create(engine.join("millrace.lock")).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
    let log = dir.path().join("stderr");
    let address = free_address().to_string();
    let mut command = with("serve", dir.path(), &["--clickhouse-addr", &address]);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command, dir.path());
    eventually("word of it", || {
        let said = std::fs::read_to_string(&log).unwrap();
        said.contains("did not come up in 5 starts").then_some(())
    });
    server.capture(&json!([{"event": "waits", "distinct_id": "me"}]));
    drop(held);
    server.wait_for("SELECT event FROM millrace.events", "waits");
}

#[test]
fn a_start_that_fails_its_checks_leaves_nothing_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let free = free_address().to_string();
    let file = TempDir::new().unwrap();
    let file = file.path().join("file");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    let table: [(&[&str], &str, i32); 9] = [
        (&["--ingest-addr", &taken], "--ingest-addr", 1),
        (&["--admin-addr", &taken], "--admin-addr", 1),
        (&["--health-addr", &taken], "--health-addr", 1),
        (&["--clickhouse-addr", &taken], "--clickhouse-addr", 1),
        // The settings are wrong whatever the machine has.
        (
            &["--ingest-addr", &free, "--admin-addr", &free],
            "--ingest-addr",
            64,
        ),
        (&["--log-dir", file], "--log-dir", 1),
        (&["--export-root", file], "export_root", 1),
        (&["--libchdb", file], "MILLRACE_LIBCHDB", 1),
        (
            &["--database-url", "postgres://me@127.0.0.1:9/none"],
            "catalog",
            1,
        ),
    ];
    for (args, why, code) in table {
        let dir = TempDir::new().unwrap();
        let data_dir = dir.path().join("new/data");
        let output = with("serve", &data_dir, args).output().unwrap();
        let text = sentence(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(why), "{args:?}: {text}");
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 0, "{args:?}");
    }
}

/// Regression: the folder for exports stayed, and so did folders above the data folder.
#[test]
fn a_start_without_a_catalog_leaves_none_of_its_folders_behind() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (data_dir, exports) = (path("new/data"), path("other/exports"));
    let given = [
        "--database-url",
        "postgres://me@127.0.0.1:9/none",
        "--export-root",
        &exports,
    ];
    let output = with("serve", Path::new(&data_dir), &given)
        .output()
        .unwrap();
    let text = sentence(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("catalog"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{text}");
}

#[test]
fn a_start_on_a_disk_with_less_room_than_the_logs_may_take_warns() {
    let dir = TempDir::new().unwrap();
    for (bytes_max, is_short) in [("128MiB", false), ("900TiB", true)] {
        let log = dir.path().join(bytes_max);
        let data_dir = dir.path().join("data");
        let mut command = with("serve", &data_dir, &["--log-bytes-max", bytes_max]);
        command.stderr(File::create(&log).unwrap());
        assert!(
            Server::start_command(&mut command, &data_dir)
                .stop()
                .success()
        );
        let said = std::fs::read_to_string(&log).unwrap();
        let warned = said.contains("lower log_bytes_max");
        assert_eq!(warned, is_short, "{bytes_max}: {said}");
    }
}
