//! Backup of a running server, and restore to a new one.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::read_only_commands::COMMANDS;
use crate::server::{Server, ask, eventually, millrace, on_own_ports, run};
use millrace_catalog::Catalog;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const ORGANIZATIONS: &str = "/api/organizations/";

fn backup(data_dir: &Path, to: &Path) -> Output {
    run(&[
        "backup",
        to.to_str().unwrap(),
        "--data-dir",
        data_dir.to_str().unwrap(),
    ])
}

fn restore(from: &Path, data_dir: &Path) -> Output {
    let data_dir = data_dir.to_str().unwrap();
    let args = ["restore", from.to_str().unwrap(), "--data-dir", data_dir];
    run(&[&args[..], &["--clickhouse-addr", "127.0.0.1:0"]].concat())
}

fn assert_refused(output: &Output, why: &str) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains(why), "{told}");
}

fn event(name: &str) -> Value {
    json!([{"event": name, "distinct_id": "a"}, {"event": name}])
}

/// Asserts that commands cannot reach the old server by a restored folder that was not started yet.
fn assert_has_no_addresses(dir: &Path) {
    let text = std::fs::read_to_string(dir.join("credentials.json")).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    for name in ["ingest_url", "admin_url", "health_url", "clickhouse_url"] {
        assert_eq!(kept[name], "", "{name}");
    }
    let purge = run(&["purge", "--data-dir", dir.to_str().unwrap()]);
    assert_refused(&purge, "start it with `millrace serve`");
}

#[test]
fn a_backup_of_a_running_server_restores_to_a_new_one() {
    let home = TempDir::new().unwrap();
    let [old_dir, copy, new_dir] = ["old", "copy", "new"].map(|name| home.path().join(name));
    let old = Server::start(&old_dir);
    let made = ask(&old, "POST", ORGANIZATIONS, &json!({"name": "Acme"}));
    assert_eq!(made.0, 201, "{made:?}");
    old.capture(&event("before"));
    for table in ["events", "rejected_events"] {
        old.wait_for(&format!("SELECT count() FROM millrace.{table}"), "1");
    }
    let made = backup(&old_dir, &copy);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(
        std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o700
    );
    // Both servers go on independently.
    old.capture(&event("after"));
    let restored = restore(&copy, &new_dir);
    assert!(restored.status.success(), "{restored:?}");
    assert_has_no_addresses(&new_dir);
    let new = Server::start(&new_dir);
    for name in ["organization_id", "project_api_key", "personal_api_key"] {
        assert_eq!(new.credential(name), old.credential(name), "{name}");
    }
    let of = |server: &Server| ask(server, "GET", ORGANIZATIONS, &Value::Null);
    assert_eq!(
        of(&new),
        of(&old),
        "organizations, asked for with the old key"
    );
    assert_eq!(new.query("SELECT event FROM millrace.events"), "before");
    assert_eq!(
        new.query("SELECT count() FROM millrace.rejected_events"),
        "1"
    );
    new.capture(&event("new"));
    let events =
        "SELECT groupArray(event) FROM (SELECT event FROM millrace.events ORDER BY created_at)";
    new.wait_for(events, "['before','new']");
    old.wait_for(events, "['before','after']");
    let node = |dir: &Path| std::fs::read_to_string(dir.join("node")).unwrap();
    assert_ne!(node(&new_dir), node(&old_dir), "no two nodes of one name");
    // Exports of the new server do not wait for the old node.
    crate::nodes::until_exports_advance(&new_dir);
}

#[test]
fn a_backup_under_load_has_each_batch_whole_or_not_at_all() {
    const BATCH: usize = 7;
    let home = TempDir::new().unwrap();
    let [old_dir, copy, new_dir] = ["old", "copy", "new"].map(|name| home.path().join(name));
    let old = Server::start(&old_dir);
    let batch = |name: &str| json!(vec![json!({"event": name, "distinct_id": "a"}); BATCH]);
    let count = "SELECT count() FROM millrace.events";
    old.capture(&batch("0"));
    old.wait_for(count, &BATCH.to_string());
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| backup(&old_dir, &copy));
        for number in 1.. {
            old.capture(&batch(&number.to_string()));
            if copying.is_finished() {
                break;
            }
        }
        let made = copying.join().unwrap();
        assert!(made.status.success(), "{made:?}");
    });
    drop(old);
    assert!(restore(&copy, &new_dir).status.success());
    let new = Server::start(&new_dir);
    let rows: usize = new.query(count).parse().unwrap();
    assert!(
        rows >= BATCH,
        "what was stored before it began is there: {rows}"
    );
    let torn = "SELECT count() FROM (SELECT event FROM millrace.events GROUP BY event HAVING count() != 7)";
    assert_eq!(new.query(torn), "0");
}

/// Asserts that a backup of the server in `dir` is rejected in each invalid place.
fn assert_no_backup_in_invalid_places(home: &Path, dir: &Path) {
    let (file, link) = (home.join("file"), home.join("link"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(dir, &link).unwrap();
    let table = [
        (
            home.join("missing/copy"),
            "missing does not exist, in which",
        ),
        (dir.to_owned(), "exists already; give a folder"),
        (file.clone(), "exists already; give a folder"),
        (file.join("copy"), "create it first"),
        (dir.join("copy"), "which the server writes to"),
        (dir.join("log/copy"), "which the server writes to"),
        (link.join("copy"), "which the server writes to"),
    ];
    for (to, why) in table {
        let is_there = to.exists();
        assert_refused(&backup(dir, &to), why);
        assert_eq!(to.exists(), is_there, "{}", to.display());
    }
    assert!(!home.join("missing").exists());
}

#[test]
fn invalid_backups_and_targets_are_rejected() {
    let home = TempDir::new().unwrap();
    let [dir, copy, new] = ["old", "copy", "new"].map(|name| home.path().join(name));
    let server = Server::start(&dir);
    server.wait_for_tables();
    assert!(backup(&dir, &copy).status.success());
    assert_refused(&backup(&dir, &copy), "give a folder that does not exist");
    assert_no_backup_in_invalid_places(home.path(), &dir);
    assert_refused(&restore(&copy, &dir), "name a new folder");
    assert_refused(
        &restore(&home.path().join("nothing"), &new),
        "nothing as a backup; give a folder",
    );
    assert_refused(&restore(home.path(), &new), "holds no whole backup");
    assert!(server.stop().success());
    assert_refused(
        &backup(&dir, &home.path().join("other")),
        "start it with `millrace serve`",
    );
    // A backup that was cut off, or lost a file, is rejected.
    std::fs::rename(copy.join("whole"), home.path().join("whole")).unwrap();
    assert_refused(&restore(&copy, &new), "holds no whole backup");
    std::fs::rename(home.path().join("whole"), copy.join("whole")).unwrap();
    let lost = copy.join("clickhouse/.backup");
    eventually("its list of files", || lost.exists().then_some(()));
    std::fs::remove_file(lost).unwrap();
    assert_refused(&restore(&copy, &new), "is not whole; delete it");
    let elsewhere = ["--clickhouse-url", "http://127.0.0.1:9"];
    let args = ["backup", "x", "--data-dir", dir.to_str().unwrap()];
    assert_refused(
        &run(&[&args[..], &elsewhere].concat()),
        "with their own tools",
    );
}

#[test]
fn servers_backups_and_restores_take_relative_paths_with_parents() {
    let home = TempDir::new().unwrap();
    let below = home.path().join("below");
    std::fs::create_dir(&below).unwrap();
    let command = |args: &[&str]| {
        let output = millrace().args(args).current_dir(&below).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    let mut serve = on_own_ports("serve", Path::new("../old"));
    serve.current_dir(&below);
    let old = Server::start_command(&mut serve, &home.path().join("old"));
    old.capture(&event("kept"));
    old.wait_for("SELECT count() FROM millrace.events", "1");
    command(&["backup", "../copy", "--data-dir", "../old"]);
    let any_port = ["--clickhouse-addr", "127.0.0.1:0"];
    let restore = ["restore", "../copy", "--data-dir", "../new"];
    command(&[&restore[..], &any_port].concat());
    let new = Server::start(&home.path().join("new"));
    new.wait_for("SELECT event FROM millrace.events", "kept");
}

#[test]
fn a_restore_that_was_cut_off_is_not_started_and_one_that_cannot_work_makes_nothing() {
    let home = TempDir::new().unwrap();
    let [dir, copy, new] = ["old", "copy", "new"].map(|name| home.path().join(name));
    let server = Server::start(&dir);
    server.wait_for_tables();
    assert!(backup(&dir, &copy).status.success());
    let busy = server.credential("clickhouse_url").replace("http://", "");
    let [from, to] = [&copy, &new].map(|path| path.to_str().unwrap());
    let args = ["restore", from, "--data-dir", to, "--clickhouse-addr"];
    let refused = run(&[&args[..], &[busy.as_str()]].concat());
    assert_refused(&refused, "another address with --clickhouse-addr");
    assert!(!new.exists());

    let mark = new.join("restoring");
    let mut command = millrace();
    command.args(args).arg("127.0.0.1:0");
    let mut restoring = command.spawn().unwrap();
    eventually("its mark", || mark.exists().then_some(()));
    restoring.kill().unwrap();
    restoring.wait().unwrap();
    assert!(mark.exists());
    for mode in ["serve", "ingest", "admin", "clickhouse"] {
        let started = on_own_ports(mode, &new).output().unwrap();
        assert_refused(&started, "delete the folder and restore the backup again");
    }
    let others = COMMANDS.iter().filter(|command| {
        let name = command.split_whitespace().next();
        !["config", "restore", "help", "completions"]
            .map(Some)
            .contains(&name)
    });
    for command in others {
        let words: Vec<_> = command.split_whitespace().collect();
        let refused = run(&[&words[..], &["--data-dir", to]].concat());
        assert_refused(&refused, "delete the folder and restore the backup again");
    }
    assert_refused(&restore(&copy, &new), "delete the folder and restore");
    // The engine ends after the command, and may still write.
    eventually("an empty place", || std::fs::remove_dir_all(&new).ok());
    assert!(restore(&copy, &new).status.success());
    assert!(!mark.exists());
    Server::start(&new).wait_for_tables();
}

/// Makes a catalog that no server has used, as earlier backups did where there was none.
fn make_empty_catalog(dir: &Path) {
    let url = format!("sqlite://{}?mode=rwc", dir.join("catalog.db").display());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let catalog = Catalog::open(&url).await.unwrap();
        catalog.close().await.unwrap();
    });
}

#[test]
fn a_catalog_that_no_server_has_used_makes_no_whole_backup() {
    let home = TempDir::new().unwrap();
    let [engine_dir, dir, copy, new] =
        ["engine", "server", "copy", "new"].map(|name| home.path().join(name));
    let engine = Engine::start(&engine_dir, PASSWORD);
    make_empty_catalog(&engine_dir);
    assert_refused(&backup(&engine_dir, &copy), "A ClickHouse of its own");
    assert!(!copy.exists());
    drop(engine);
    // A backup of that kind, which is there already.
    let server = Server::start(&dir);
    server.wait_for_tables();
    assert!(backup(&dir, &copy).status.success());
    std::fs::remove_file(copy.join("catalog.db")).unwrap();
    make_empty_catalog(&copy);
    assert_refused(&restore(&copy, &new), "which no server has used");
}

#[test]
fn leftovers_of_killed_backups_are_removed_by_the_next_backup_and_the_next_start() {
    let home = TempDir::new().unwrap();
    let [dir, copy] = ["server", "copy"].map(|name| home.path().join(name));
    let part = dir
        .join("clickhouse/backups")
        .join("01234567-89ab-cdef-0123-456789abcdef.part");
    let server = Server::start(&dir);
    server.wait_for_tables();
    std::fs::create_dir_all(part.join("data")).unwrap();
    assert!(backup(&dir, &copy).status.success());
    assert!(!part.exists());
    assert!(server.stop().success());
    std::fs::create_dir_all(part.join("data")).unwrap();
    let server = Server::start(&dir);
    server.wait_for_tables();
    assert!(!part.exists());
}

#[test]
fn an_unusable_backup_folder_fails_backups_alone() {
    let home = TempDir::new().unwrap();
    let [dir, copy, file] = ["server", "copy", "file"].map(|name| home.path().join(name));
    std::fs::write(&file, "").unwrap();
    let setting = ["--clickhouse-backup-dir", file.to_str().unwrap()];
    let server = Server::start_with(&dir, &setting);
    server.capture(&event("kept"));
    server.wait_for("SELECT count() FROM millrace.events", "1");
    let [data_dir, to] = [&dir, &copy].map(|path| path.to_str().unwrap());
    let args = ["backup", to, "--data-dir", data_dir];
    let refused = run(&[&args[..], &setting].concat());
    assert_refused(&refused, "name another with clickhouse_backup_dir");
    assert!(!copy.exists());
}
