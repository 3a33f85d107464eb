//! Output of commands that nobody gets: on a full disk, and of a reader that has gone.

use crate::server::{Server, millrace};
use std::fs::File;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;

/// Commands that need no server.
const ALONE: [&[&str]; 6] = [
    &["--help"],
    &["help", "settings"],
    &["completions", "bash"],
    &["--version"],
    &["config"],
    &["migrate", "--print", "server"],
];
/// Commands beside a server.
const BESIDE: [&[&str]; 9] = [
    &["credentials"],
    &["credentials", "reader"],
    &["serve", "--print-credentials"],
    &["clickhouse-users", "list"],
    &["keys", "list"],
    &["log", "inspect"],
    &["nodes", "list"],
    &["organizations", "list"],
    &["rejected", "list"],
];
const FORMATS: [&str; 6] = ["table", "json", "ndjson", "csv", "parquet", "arrow"];

/// Runs a command whose standard output is this file.
fn run_into(dir: &Path, args: &[&str], out: Stdio) -> Output {
    let mut command = millrace();
    command.args(args).arg("--data-dir").arg(dir);
    command.stdout(out).output().unwrap()
}

/// Asserts that a command fails where its output is lost, and not where its reader has gone.
fn assert_tells_what_is_lost(dir: &Path, args: &[&str]) {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let lost = run_into(dir, args, full.into());
    let said = String::from_utf8_lossy(&lost.stderr);
    assert_eq!(lost.status.code(), Some(1), "{args:?}: {said}");
    let reason = "millrace: standard output cannot be written: No space left on device";
    assert!(said.contains(reason), "{args:?}: {said}");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let left = run_into(dir, args, writer.into());
    let said = String::from_utf8_lossy(&left.stderr);
    assert!(left.status.success(), "{args:?}: {said}");
    assert!(!said.contains("millrace: "), "{args:?}: {said}");
}

#[test]
fn a_command_whose_output_is_lost_fails_and_one_whose_reader_has_gone_does_not() {
    let dir = TempDir::new().unwrap();
    for args in ALONE {
        assert_tells_what_is_lost(dir.path(), args);
    }
    let server = Server::start(dir.path());
    server.wait_for_tables();
    for args in BESIDE {
        assert_tells_what_is_lost(dir.path(), args);
    }
    // An answer of many pieces, and one that is smaller than any buffer.
    for sql in ["SELECT number FROM numbers(300000)", "SELECT 1"] {
        for format in FORMATS {
            assert_tells_what_is_lost(dir.path(), &["query", sql, "--format", format]);
        }
    }
}
