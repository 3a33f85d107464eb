//! `millrace doctor`: what it finds where all is well, and where something is not.

use crate::server::{Server, millrace};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Nameserver that nobody is: the check ends at once.
const NO_NAMESERVER: &str = "127.0.0.1:9";

/// Runs `doctor` on a folder; listeners take any port unless they are given.
fn doctor(data_dir: &Path, args: &[&str]) -> Output {
    let mut command = millrace();
    command.arg("doctor").arg("--data-dir").arg(data_dir);
    for flag in [
        "--ingest-addr",
        "--admin-addr",
        "--health-addr",
        "--clickhouse-addr",
    ] {
        if !args.contains(&flag) {
            command.args([flag, "127.0.0.1:0"]);
        }
    }
    if !args.contains(&"--dns-nameserver") {
        command.args(["--dns-nameserver", NO_NAMESERVER]);
    }
    command.args(args).output().unwrap()
}

/// Findings of a check, of a run with `--json`.
fn findings(output: &Output, check: &str) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let found = printed["checks"].as_array().unwrap().iter();
    found.filter(|it| it["check"] == check).cloned().collect()
}

#[test]
fn a_machine_before_the_first_start_is_well_and_stays_as_it_is() {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    let output = doctor(&data_dir, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    for check in ["data folder", "disk", "sync", "open files", "catalog"] {
        let found = findings(&output, check);
        assert!(!found.is_empty(), "{check}: {output:?}");
    }
    let folder = &findings(&output, "data folder")[0]["found"];
    assert!(folder.as_str().unwrap().contains("first start"), "{folder}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_running_server_is_recognized() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let address = |name: &str| server.credential(name).replace("http://", "");
    let (ingest, admin) = (address("ingest_url"), address("admin_url"));
    let args = ["--json", "--ingest-addr", &ingest, "--admin-addr", &admin];
    let output = doctor(dir.path(), &args);
    assert!(output.status.success(), "{output:?}");
    let ports = findings(&output, "port");
    assert_eq!(ports.len(), 2, "{ports:?}");
    for port in ports {
        assert_eq!(port["status"], "ok", "{port}");
        let found = port["found"].as_str().unwrap();
        assert!(found.contains("runs"), "{found}");
    }
    let engine = findings(&output, "ClickHouse");
    let runs = |it: &Value| it["found"].as_str().unwrap().contains("runs, version 26.");
    assert!(engine.iter().any(runs), "{engine:?}");
    let catalog = &findings(&output, "catalog")[0];
    let found = catalog["found"].as_str().unwrap();
    assert!(found.contains("schema of this version"), "{found}");
}

#[test]
fn a_clickhouse_server_is_checked_with_its_version_and_clock() {
    let dir = TempDir::new().unwrap();
    let server = Server::start(dir.path());
    server.wait_for_tables();
    let other = TempDir::new().unwrap();
    let given = server.clickhouse_args();
    let mut args: Vec<&str> = given.iter().map(String::as_str).collect();
    args.push("--json");
    let output = doctor(&other.path().join("data"), &args);
    assert!(output.status.success(), "{output:?}");
    let told: Vec<Value> = findings(&output, "ClickHouse");
    assert_eq!(told.len(), 2, "usable, and its version: {told:?}");
    let clock = &findings(&output, "clock")[0];
    assert_eq!(clock["status"], "ok", "{clock}");
}

#[test]
fn what_does_not_work_is_an_error_with_the_next_step() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let file = TempDir::new().unwrap();
    let file = file.path().join("file");
    let smtp = [
        "--smtp-url",
        "smtp://127.0.0.1:9",
        "--mail-from",
        "a@example.com",
        "--admin-public-url",
        "https://millrace.example.com",
    ];
    let file = file.to_str().unwrap();
    let table: [(&[&str], &str, &str); 6] = [
        (&["--ingest-addr", &taken], "port", "--ingest-addr"),
        (&["--ingest-addr", "192.0.2.1:80"], "port", "0.0.0.0:80"),
        (
            &["--clickhouse-url", "http://127.0.0.1:9"],
            "ClickHouse",
            "clickhouse_url",
        ),
        (&["--libchdb", file], "ClickHouse", "MILLRACE_LIBCHDB"),
        (
            &["--database-url", "postgres://me@127.0.0.1:9/none"],
            "catalog",
            "database_url",
        ),
        (&smtp, "mail", "smtp_url"),
    ];
    for (args, check, advice) in table {
        let dir = TempDir::new().unwrap();
        let data_dir = dir.path().join("data");
        let output = doctor(&data_dir, &[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        let found = findings(&output, check);
        let wrong = found.iter().find(|it| it["status"] == "error");
        let told = wrong.unwrap_or_else(|| panic!("{args:?}: {found:?}"));
        let told = told["advice"].as_str().unwrap();
        assert!(told.contains(advice), "{args:?}: {told}");
        assert!(!data_dir.exists(), "{args:?}");
        // For people the same is in lines, and the summary is the error.
        let lines = doctor(&data_dir, args);
        let text = String::from_utf8_lossy(&lines.stdout).into_owned();
        assert!(text.contains("To do: ") && text.contains(advice), "{text}");
        let summary = String::from_utf8_lossy(&lines.stderr).into_owned();
        assert!(summary.contains("1 error and"), "{summary}");
    }
}

#[test]
fn a_nameserver_without_an_answer_is_a_warning() {
    let dir = TempDir::new().unwrap();
    let output = doctor(dir.path(), &["--json", "--mode", "admin"]);
    assert!(output.status.success(), "{output:?}");
    let nameserver = &findings(&output, "nameserver")[0];
    assert_eq!(nameserver["status"], "warning", "{nameserver}");
    assert!(findings(&output, "sync").is_empty(), "{output:?}");
}
