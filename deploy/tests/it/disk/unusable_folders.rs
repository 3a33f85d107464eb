//! Folders that cannot be used, and folders that are deleted.

use super::full::DiskFiller;
use super::{SmallDisk, is_in_mount_namespace, mount};
use crate::clickhouse_outage::test_env::{Load, TestEnv};
use crate::server::{Server, error_line, eventually, on_own_ports};
use serde_json::json;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// Id of an unused user.
const STRANGER: u32 = 65_534;

/// Error of a start, which must exit with 1.
fn sentence(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    error_line(&text).to_owned()
}

fn assert_says(what: &str, output: &Output, words: &[&str]) {
    let text = sentence(output);
    for word in words {
        assert!(text.contains(word), "{what}: {word} is not in: {text}");
    }
}

/// Starts and stops a server, so that its folders have been used.
fn use_once(data_dir: &Path, args: &[&str]) {
    let server = Server::start_with(data_dir, args);
    server.capture(&json!([{"event": "first", "distinct_id": "me"}]));
    assert!(server.stop().success());
}

fn make_read_only(disk: &Path) {
    mount(&["-o", "remount,ro"], disk);
}

#[test]
fn a_read_only_folder_is_reported_with_its_flag() {
    if !is_in_mount_namespace(
        "disk::unusable_folders::a_read_only_folder_is_reported_with_its_flag",
    ) {
        return;
    }
    for is_used in [false, true] {
        let dir = TempDir::new().unwrap();
        let disk = dir.path().join("disk");
        let _mounted = SmallDisk::tmpfs(&disk, "256m");
        let (data_dir, log_dir) = (dir.path().join("data"), disk.join("log"));
        let log_flag = ["--log-dir", log_dir.to_str().unwrap()];
        if is_used {
            use_once(&disk, &[]);
            use_once(&data_dir, &log_flag);
        }
        make_read_only(&disk);
        let start = |data_dir: &Path, args: &[&str]| {
            let mut command = on_own_ports("serve", data_dir);
            command.args(args).output().unwrap()
        };
        let output = start(&disk, &[]);
        let words = [disk.to_str().unwrap(), "--data-dir", "Read-only"];
        assert_says("data", &output, &words);
        let output = start(&data_dir, &log_flag);
        let words = [log_dir.to_str().unwrap(), "--log-dir", "Read-only"];
        assert_says("log", &output, &words);
    }
}

/// Starts a server with the rights of an unprivileged user.
fn start_unprivileged(data_dir: &Path, args: &[&str]) -> Output {
    let command = on_own_ports("serve", data_dir);
    let mut unprivileged = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        unprivileged.args(["--inh-caps=-all", "--bounding-set=-all"]);
    }
    unprivileged.arg("--").arg(command.get_program());
    unprivileged
        .args(command.get_args())
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn a_folder_of_another_user_is_reported_with_its_flag() {
    let forbid = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
        }
    };
    let dir = TempDir::new().unwrap();
    let (data_dir, theirs) = (dir.path().join("data"), dir.path().join("theirs"));
    use_once(&data_dir, &[]);
    std::fs::create_dir(&theirs).unwrap();
    forbid(&theirs, 0o000);
    let their_path = theirs.to_str().unwrap();
    let output = start_unprivileged(&theirs, &[]);
    assert_says("data", &output, &[their_path, "--data-dir", "denied"]);
    let output = start_unprivileged(&data_dir, &["--log-dir", their_path]);
    assert_says("log", &output, &[their_path, "--log-dir", "denied"]);
    let files = [
        ("catalog.db", "catalog.db"),
        ("log/live/checkpoint", "--log-dir"),
        ("credentials.json", "credentials.json"),
        ("node", "node"),
    ];
    for (name, word) in files {
        let path = data_dir.join(name);
        let before = std::fs::metadata(&path).unwrap();
        forbid(&path, 0o000);
        let output = start_unprivileged(&data_dir, &[]);
        assert_says(name, &output, &[data_dir.to_str().unwrap(), word]);
        std::fs::set_permissions(&path, before.permissions()).unwrap();
        let own = rustix::process::geteuid().as_raw();
        chown(&path, Some(own), None).unwrap();
    }
    // The temporary loss of access did no harm.
    use_once(&data_dir, &[]);
}

#[test]
fn a_server_starts_on_a_full_disk() {
    if !is_in_mount_namespace("disk::unusable_folders::a_server_starts_on_a_full_disk") {
        return;
    }
    let dir = TempDir::new().unwrap();
    let ingest_dir = dir.path().join("ingest");
    let _disk = SmallDisk::tmpfs(&ingest_dir, "64m");
    let mut env = TestEnv::start_in(dir, &[]);
    env.proxy.set("down".parse().unwrap());
    let load = Load::start(env.plan(2_000.0));
    load.until_acknowledged(2_000);
    load.end();
    let filler = DiskFiller::start(ingest_dir.join("foreign"));
    // The first recovery frees space, the second finds none.
    for _ in 0..2 {
        let blocks_free = || rustix::fs::statvfs(&ingest_dir).unwrap().f_bavail;
        eventually("a full disk", || (blocks_free() == 0).then_some(()));
        env.restart_server();
    }
    filler.end();
    env.proxy.lift();
    env.assert_exactly_once("millrace.events");
}

#[test]
fn a_folder_that_is_deleted_under_a_server_ends_it_with_a_reason() {
    let dir = TempDir::new().unwrap();
    let data_dir = dir.path().join("data");
    let said = dir.path().join("said");
    let errors = File::create(&said).unwrap();
    let mut command = on_own_ports("serve", &data_dir);
    let mut server = Server::start_command(command.stderr(Stdio::from(errors)), &data_dir);
    let url = format!("{}/batch/", server.credential("ingest_url"));
    let key = server.credential("project_api_key");
    // Until nothing is written to it meanwhile.
    eventually("an empty place", || {
        let _ = std::fs::remove_dir_all(&data_dir);
        (!data_dir.exists()).then_some(())
    });
    // The server notices at its next write.
    let body = json!({"api_key": key, "batch": [{"event": "lost", "distinct_id": "me"}]});
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let sent = agent.post(&url).send(body.to_string());
    if let Ok(answer) = sent {
        assert!([200, 503].contains(&answer.status().as_u16()), "{answer:?}");
    }
    assert_eq!(server.wait().code(), Some(1));
    let text = std::fs::read_to_string(&said).unwrap();
    let error = error_line(&text);
    assert!(!text.contains("panicked"), "{text}");
    for word in [data_dir.to_str().unwrap(), "No such file"] {
        assert!(error.contains(word), "{word} is not in: {error}\n{text}");
    }
    drop(server);
    // Nothing of the folder is left, so this is a first start.
    use_once(&data_dir, &[]);
}

#[test]
fn a_damaged_checkpoint_is_quarantined_and_nothing_is_sent_twice() {
    let mut env = TestEnv::start(&[]);
    let load = Load::start(env.plan(4_000.0));
    load.until_acknowledged(4_000);
    env.until_shipping();
    load.until_acknowledged(4_000);
    load.end();
    for lane in ["live", "historical"] {
        let path = env.dir.path().join(format!("ingest/log/{lane}/checkpoint"));
        eventually("a checkpoint", || path.exists().then_some(()));
    }
    env.kill_server();
    for lane in ["live", "historical"] {
        let path = env.dir.path().join(format!("ingest/log/{lane}/checkpoint"));
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    env.restart_server();
    for lane in ["live", "historical"] {
        assert_eq!(damage_count(&env, lane), 1.0, "{lane}");
    }
    env.assert_exactly_once("millrace.events");
}

/// Metric of the alert for damage.
fn damage_count(env: &TestEnv, lane: &str) -> f64 {
    env.metric("millrace_log_damaged_total", &format!("lane=\"{lane}\""))
}

#[test]
fn damage_found_at_a_start_is_counted_until_repaired() {
    let mut env = TestEnv::start(&[]);
    env.proxy.set("down".parse().unwrap());
    for lane in ["live", "historical"] {
        assert_eq!(damage_count(&env, lane), 0.0, "{lane}");
    }
    let load = Load::start(env.plan(4_000.0));
    load.until_acknowledged(4_000);
    load.end();
    env.kill_server();
    // In the first of many frames.
    let path = env.dir.path().join("ingest/log/live");
    let names = std::fs::read_dir(&path).unwrap();
    let mut segments = names.map(|name| name.unwrap().path());
    let segment = segments.find(|path| path.extension().is_some_and(|end| end == "log"));
    let file = File::options().write(true).open(segment.unwrap()).unwrap();
    file.write_all_at(b"damage", 200).unwrap();
    for _ in 0..2 {
        env.restart_server();
        assert_eq!(damage_count(&env, "live"), 1.0);
        assert_eq!(damage_count(&env, "historical"), 0.0);
    }
}

#[test]
fn parts_of_the_folder_may_be_on_other_file_systems() {
    if !is_in_mount_namespace(
        "disk::unusable_folders::parts_of_the_folder_may_be_on_other_file_systems",
    ) {
        return;
    }
    let dir = TempDir::new().unwrap();
    let ingest_dir = dir.path().join("ingest");
    let parts = ["log/live", "log/historical", "dead-letters/live"];
    let _disks = parts.map(|part| SmallDisk::tmpfs(&ingest_dir.join(part), "64m"));
    // By default the log's capacity is derived from the disk that holds the lanes' folders.
    let mut env = TestEnv::start_in(dir, &["--log-bytes-max", "64MiB"]);
    env.capture_with_one_bad();
    let dead_letters = std::fs::read_dir(ingest_dir.join("dead-letters/live")).unwrap();
    assert_eq!(dead_letters.count(), 2, "a row and its label");
    env.restart_server();
    env.server
        .capture(&json!([{"event": "good", "distinct_id": "me"}]));
    env.wait_for_rows(100);
}
