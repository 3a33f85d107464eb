//! Commands create nothing in the folder that they read: an empty or missing one, that of a
//! ClickHouse alone, or that of a server without the organization API.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::{Server, millrace, run};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// All commands but servers, with their arguments; `FOLDER` is the folder that they read.
pub const COMMANDS: [&str; 47] = [
    "migrate",
    "query SELECT",
    "config",
    "serve --print-credentials",
    "credentials",
    "clickhouse-users list",
    "clickhouse-users rotate reader",
    "columns list",
    "columns add plan --all-projects",
    "columns remove property_1",
    "columns suggest",
    "keys create --project Shop",
    "keys create --user owner@localhost",
    "keys create --project-id 1 --rotate",
    "keys list",
    "keys revoke phc_0",
    "organizations create --name Acme",
    "organizations list",
    "organizations features",
    "members list",
    "members set-level --user owner@localhost --level 15",
    "members remove --user owner@localhost",
    "invites create --email a@example.com",
    "sign-in-link --email owner@localhost",
    "migrations list",
    "migrations approve --project-id 1 --total-events 1 --events-per-minute 1",
    "migrations reject 018f2a3b-0000-7000-8000-000000000000",
    "import check nothing.json",
    "import load nothing.json",
    "import reconcile",
    "import report",
    "nodes list",
    "nodes deregister n --yes",
    "rejected list",
    "rejected show",
    "rejected resend",
    "secrets rotate",
    "tail",
    "secrets reset --yes",
    "catalog copy --to postgres://me@127.0.0.1:9/none",
    "purge",
    "backup made-by-backup",
    "restore FOLDER --data-dir made-by-restore",
    "log inspect",
    "drain --wait",
    "help settings",
    "completions bash",
];
/// Commands that succeed without a server.
const NEED_NOTHING: [&str; 3] = ["config", "help settings", "completions bash"];

/// Subcommands that `-h` lists.
fn subcommands(of: &[&str]) -> Vec<String> {
    let help = run(&[of, &["-h"]].concat());
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| line.starts_with("  "));
    // A continued line is indented further.
    let names = names.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

fn leaves(of: &[&str]) -> Vec<String> {
    let below = subcommands(of);
    if below.is_empty() {
        return vec![of.join(" ")];
    }
    let all = below
        .iter()
        .flat_map(|name| leaves(&[of, &[name]].concat()));
    all.collect()
}

#[test]
fn all_commands_are_in_the_table() {
    // Servers create their files; fetched exports and manual pages have a folder of their own, and
    // `doctor` has tests of its own.
    let others = [
        "serve",
        "ingest",
        "admin",
        "clickhouse",
        "import fetch",
        "man",
        "doctor",
    ];
    for command in leaves(&[]) {
        let is_there = COMMANDS.iter().any(|it| it.starts_with(&command));
        let is_other = others.iter().any(|it| command.starts_with(it));
        assert!(is_there || is_other, "{command}");
    }
}

/// All paths below a folder; the engine's folder without its content, which changes while it runs.
fn listing(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(dir) else {
        return found;
    };
    found.insert(".".to_owned());
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() && name != "clickhouse" {
            found.extend(
                listing(&entry.path())
                    .iter()
                    .map(|it| format!("{name}/{it}")),
            );
        }
        found.insert(name);
    }
    found
}

/// Runs a command in a folder of its own, in which it may create nothing either.
fn run_on(folder: &Path, command: &str) -> Output {
    let here = TempDir::new().unwrap();
    let args = command.split(' ').map(|word| match word {
        "FOLDER" => folder.to_str().unwrap(),
        word => word,
    });
    let mut run = millrace();
    run.args(args).current_dir(&here);
    if !command.contains("--data-dir") {
        run.arg("--data-dir").arg(folder);
    }
    let output = run.output().unwrap();
    let made = listing(here.path());
    // Stages of an import create the staging folder.
    let stages = ["import check", "import load"];
    let is_stage = stages.iter().any(|it| command.starts_with(it));
    let staging = made.iter().filter(|it| it.starts_with("millrace-import"));
    let allowed = if is_stage { staging.count() } else { 0 };
    assert_eq!(made.len(), 1 + allowed, "{command} made {made:?}");
    output
}

/// Runs all commands on a folder and asserts that it stays unchanged; with `is_refused`, all must
/// fail with advice.
fn assert_nothing_is_created(folder: &Path, commands: &[&str], is_refused: bool) {
    let before = listing(folder);
    for command in commands {
        let output = run_on(folder, command);
        assert_eq!(listing(folder), before, "{command}");
        let said = String::from_utf8_lossy(&output.stderr);
        if NEED_NOTHING.contains(command) {
            assert!(output.status.success(), "{command}: {said}");
        } else if is_refused {
            assert_eq!(output.status.code(), Some(1), "{command}: {said}");
            let told = said.lines().last().unwrap_or_default();
            let is_stage = command.starts_with("import ");
            let does = ["--data-dir", "start", "RUNBOOK", "millrace backup"];
            let does_help = does.iter().any(|it| told.contains(it));
            assert!(is_stage || does_help, "{command}: {told}");
        }
    }
}

#[test]
fn commands_create_nothing_where_there_is_no_server() {
    let home = TempDir::new().unwrap();
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for folder in [empty, home.path().join("absent"), home.path().join("a/b/c")] {
        assert_nothing_is_created(&folder, &COMMANDS, true);
    }
    let left = listing(home.path());
    assert_eq!(left, [".", "empty", "empty/."].map(str::to_owned).into());
}

#[test]
fn commands_create_nothing_in_the_folder_of_a_clickhouse() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("engine");
    let engine = Engine::start(&folder, PASSWORD);
    assert_nothing_is_created(&folder, &COMMANDS, false);
    for (command, told) in [
        ("backup made-by-backup", "A ClickHouse of its own"),
        ("organizations list", "there is no catalog"),
        ("keys create --project Shop", "there is no catalog"),
        ("secrets rotate", "there is no catalog"),
        (
            "restore FOLDER --data-dir made-by-restore",
            "holds no whole backup",
        ),
    ] {
        let output = run_on(&folder, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(told), "{command}: {said}");
    }
    drop(engine);
}

#[test]
fn commands_create_nothing_in_the_folder_of_a_server_without_the_organization_api() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("ingest");
    let elsewhere = ["--clickhouse-url", "http://127.0.0.1:9"];
    let server = Server::start_mode("ingest", &folder, &elsewhere);
    assert!(server.stop().success());
    // SQLite's journal is merged into the file by the last process that has it open.
    assert!(run_on(&folder, "nodes list").status.success());
    assert_nothing_is_created(&folder, &COMMANDS, false);
    for (command, told) in [
        ("backup made-by-backup", "has no ClickHouse"),
        ("secrets rotate", "there is no secret.key"),
    ] {
        let output = run_on(&folder, command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(said.contains(told), "{command}: {said}");
    }
}
