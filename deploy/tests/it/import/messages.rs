//! Messages of the stages: they report results and advice.

use super::TestEnv;
use super::stages::rejects;
use crate::clickhouse_outage::tls_proxy::{Authority, TlsProxy};
use crate::server::{millrace, post};
use serde_json::json;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const GOOD: &str = "{\"event\":\"a\",\"distinct_id\":\"b\",\"timestamp\":\"2024-01-05\"}\n";
const BAD: &str = "{\"event\":\"a\",\"distinct_id\":\"b\"}\n";

/// Output of a command, standard output first.
fn printed(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

/// Last follow-up command in a text.
fn next_command(text: &str) -> Vec<String> {
    let mut commands = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("millrace "));
    shlex::split(commands.next_back().unwrap()).unwrap()
}

#[test]
fn reconcile_counts_loaded_events_and_explains_how_to_ignore_others() {
    let env = TestEnv::start();
    let other = GOOD.replace("\"a\"", "\"c\"");
    std::fs::write(env.path("one.ndjson"), GOOD).unwrap();
    std::fs::write(env.path("two.ndjson"), [GOOD, &other].concat()).unwrap();
    assert!(env.output(&["check", "one.ndjson"]).status.success());
    assert!(env.output(&["load", "two.ndjson"]).status.success());
    env.wait_for_events(2);
    let told = printed(&env.output(&["reconcile", "two.ndjson"]));
    for words in [
        "Source            2 events, where the last `import check` here counted 1: other files",
        "Every day and event is stored",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(env.output(&["check", "two.ndjson"]).status.success());
    let told = printed(&env.output(&["reconcile", "two.ndjson"]));
    assert!(told.contains("Source            2 events\n"), "{told}");

    let stray = json!({ "api_key": env.server.credential("project_api_key"), "historical_migration": true,
        "batch": [{ "event": "stray", "distinct_id": "a", "timestamp": "2024-02-01" }]});
    let url = format!("{}/batch/", env.server.credential("ingest_url"));
    assert_eq!(post(&url, &stray.to_string()).0, 200);
    env.wait_for_events(3);
    let output = env.output(&["reconcile", "two.ndjson", "--wait", "0"]);
    let told = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("those stored more came from elsewhere"),
        "{told}"
    );
    assert!(!told.contains("are missing"), "{told}");
    let next_command = next_command(&told);
    assert!(next_command.contains(&"--allow-more".to_owned()), "{told}");
    let mut again = millrace();
    let again = again
        .current_dir(&env.home)
        .args(&next_command)
        .output()
        .unwrap();
    assert!(again.status.success(), "{again:?}");
    corrected_rejects_count_as_the_same_file(&env);
}

fn corrected_rejects_count_as_the_same_file(env: &TestEnv) {
    std::fs::write(env.path("bad.ndjson"), [GOOD, BAD].concat()).unwrap();
    let staged = |args: &[&str]| printed(&env.output(&[args, &["--staging", "mended"]].concat()));
    let (checked, loaded) = (
        staged(&["check", "bad.ndjson"]),
        staged(&["load", "bad.ndjson"]),
    );
    assert!(
        checked.contains("1 of 2 records would be rejected"),
        "{checked}"
    );
    assert!(loaded.contains("1 record rejected"), "{loaded}");
    let path = rejects(env).replace("millrace-import", "mended");
    let text = std::fs::read_to_string(env.path(&path)).unwrap();
    let mended = text.replace(BAD.trim_end(), GOOD.trim_end());
    std::fs::write(env.path(&path), mended).unwrap();
    let resent = staged(&["load", "--rejects", &path]);
    assert!(resent.contains("2 events accepted"), "{resent}");
    let told = staged(&["report"]);
    assert!(told.contains("  1/1  "), "{told}");
    let told = staged(&["reconcile", "bad.ndjson", "--allow-more"]);
    let words = "counted 1: other files, a part of them, another mapping, or before corrections";
    assert!(told.contains(words), "{told}");
}

#[test]
fn a_load_to_a_wrong_address_fails_at_once_and_suggests_the_right_one() {
    let env = TestEnv::start();
    // More than the buffers of a connection that is closed before all was read.
    std::fs::write(env.path("events.ndjson"), GOOD.repeat(100_000)).unwrap();
    let ingest = env.server.credential("ingest_url");
    let by_tls = ingest.replace("http://", "https://");
    let address = ingest.strip_prefix("http://").unwrap().parse().unwrap();
    let authority = Authority::new("nobody's");
    let front = TlsProxy::start(authority.certificate("localhost"), address);
    let table = [
        (by_tls, "does not speak TLS; begin --url with http://"),
        (
            env.server.credential("admin_url"),
            "not that of the organization API",
        ),
        (env.server.credential("health_url"), "check --url"),
        (env.server.credential("clickhouse_url"), "check --url"),
        (
            front.url("http"),
            "begin --url with https:// if it speaks TLS",
        ),
        (
            front.url("https"),
            "shows a certificate that is not trusted",
        ),
    ];
    let key = env.server.credential("project_api_key");
    for (url, words) in table {
        let begun = Instant::now();
        let output = env.output(&[
            "load",
            "events.ndjson",
            "--url",
            &url,
            "--project-key",
            &key,
        ]);
        let told = printed(&output);
        assert_eq!(output.status.code(), Some(1), "{url}: {told}");
        assert!(told.contains(words), "{url}: {told}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{url}: {told}");
    }
    // The failed attempts do not affect a correct one.
    let output = env.output(&["load", "events.ndjson"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_foreign_address_fails_every_stage_at_once() {
    let env = TestEnv::start();
    std::fs::write(env.path("events.ndjson"), GOOD).unwrap();
    assert!(env.output(&["load", "events.ndjson"]).status.success());
    let ingest = env.server.credential("ingest_url");
    let key = env.server.credential("project_api_key");
    let server = ingest.strip_prefix("http://").unwrap();
    let table = [
        (server.to_owned(), format!("write {ingest}, or https://")),
        (
            format!("ftp://{server}"),
            format!("write http://{server} or"),
        ),
        (format!("{ingest}?a=1"), format!("write {ingest}/ without")),
        (format!("{ingest}#top"), format!("write {ingest}/ without")),
        (format!("{ingest}/batch/"), format!("write {ingest}/, the")),
    ];
    for (url, words) in table {
        for stage in ["load", "reconcile"] {
            let address = ["--url", &url, "--project-key", &key];
            let output = env.output(&[&[stage, "events.ndjson"], &address[..]].concat());
            let told = printed(&output);
            assert_eq!(output.status.code(), Some(1), "{stage} {url}: {told}");
            assert!(told.contains(&words), "{stage} {url}: {told}");
        }
    }
    let elsewhere = env.output(&["reconcile", "--url", "http://127.0.0.1:9"]);
    let told = printed(&elsewhere);
    let words = format!("this import went to {ingest}; omit --url");
    assert!(told.contains(&words), "{told}");
    let here = env.output(&["reconcile", "events.ndjson", "--url", &format!("{ingest}/")]);
    assert!(here.status.success(), "{here:?}");
}

#[test]
fn special_files_are_rejected_and_shell_pipes_are_read() {
    let env = TestEnv::start();
    let pipe = env.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let _socket = UnixListener::bind(env.path("socket")).unwrap();
    std::fs::create_dir(env.path("folder")).unwrap();
    std::fs::rename(&pipe, env.path("folder/pipe")).unwrap();
    std::fs::write(env.path("good.ndjson"), GOOD).unwrap();
    let table = [
        (
            "folder/pipe",
            "is a named pipe, and files are read; give it",
        ),
        ("folder", "folder/pipe is a named pipe"),
        ("socket", "socket is a socket, and files are read"),
        ("/dev/zero", "/dev/zero is a device"),
    ];
    for (name, words) in table {
        for stage in ["check", "load"] {
            let output = env.output(&[stage, "good.ndjson", name]);
            let told = printed(&output);
            assert_eq!(output.status.code(), Some(1), "{stage} {name}: {told}");
            assert!(told.contains(words), "{stage} {name}: {told}");
        }
    }
    let program = millrace().get_program().to_owned();
    for (number, file) in ["<(cat good.ndjson)", "/dev/stdin", "-"].iter().enumerate() {
        for stage in ["check", "load"] {
            let line =
                format!("cat good.ndjson | \"$0\" import {stage} {file} --staging s{number}");
            let mut bash = Command::new("bash");
            let bash = bash.args(["-c", &line]).arg(&program);
            let output = bash.current_dir(&env.home).output().unwrap();
            let told = printed(&output);
            assert!(output.status.success(), "{stage} {file}: {told}");
            let counts = ["Records           1", "1 record: 1 event accepted"];
            assert!(counts.iter().any(|it| told.contains(it)), "{file}: {told}");
        }
    }
    // Records without ids of their own are identified by their file's name, too.
    env.wait_for_events(3);
}

#[test]
fn an_error_names_its_place_in_the_file_if_known() {
    let env = TestEnv::start();
    std::fs::write(env.path("cut.parquet"), "PAR1, and no more").unwrap();
    std::fs::write(env.path("cut.json"), format!("[{GOOD}, {GOOD}")).unwrap();
    let table = [
        ("cut.parquet", "is not readable Parquet", "at byte"),
        ("cut.json", "(at byte 117 of its contents)", "decompressed"),
    ];
    for (file, words, others) in table {
        let told = printed(&env.output(&["check", file]));
        assert!(told.contains(words), "{file}: {told}");
        assert!(!told.contains(others), "{file}: {told}");
    }
}

#[test]
fn a_load_reports_how_many_rejects_are_still_in_the_file() {
    let env = TestEnv::start();
    std::fs::write(env.path("bad.ndjson"), [GOOD, BAD, BAD, BAD].concat()).unwrap();
    let path = env.path(&rejects(&env));
    let load = || printed(&env.output(&["load", "bad.ndjson"]));
    let told = load();
    let name = rejects(&env);
    assert!(
        told.contains(&format!(
            "They are in {name}, one on each line, with reason, file and line. Correct"
        )),
        "{told}"
    );
    for left in [2, 1, 0] {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text
            .lines()
            .take(left)
            .map(|line| format!("{line}\n"))
            .collect();
        std::fs::write(&path, lines.concat()).unwrap();
        let told = load();
        let verb = if left == 1 { "is" } else { "are" };
        let words = format!("{left} of them {verb} in {name}, one on each line");
        assert!(told.contains(&words), "{words}: {told}");
        assert!(told.contains(" The others were taken out of it."), "{told}");
    }
}

#[test]
fn a_check_suggests_a_load_only_of_readable_files_with_events() {
    let env = TestEnv::start();
    std::fs::write(env.path("good.ndjson"), GOOD).unwrap();
    std::fs::write(env.path("empty.ndjson"), "").unwrap();
    std::fs::write(env.path("cut.parquet"), "PAR1, and no more").unwrap();
    std::fs::write(env.path("mixed.ndjson"), [GOOD, BAD].concat()).unwrap();
    let table = [
        (&["good.ndjson"][..], true),
        (&["good.ndjson", "cut.parquet"], false),
        (&["cut.parquet"], false),
        (&["empty.ndjson"], false),
        (&["mixed.ndjson"], false),
    ];
    for (files, expected) in table {
        let told = printed(&env.output(&[&["check"], files].concat()));
        assert_eq!(told.contains("Send them:"), expected, "{files:?}: {told}");
        let without = told.contains("Send them without what would be rejected");
        assert_eq!(without, files.contains(&"mixed.ndjson"), "{told}");
    }
}

#[test]
fn a_restart_that_cannot_begin_keeps_the_progress() {
    let env = TestEnv::start();
    std::fs::write(env.path("bad.ndjson"), [GOOD, BAD].concat()).unwrap();
    assert!(env.output(&["load", "bad.ndjson"]).status.success());
    let folder = env.path(&rejects(&env));
    let contents = || {
        let names = ["journal.ndjson", "rejects.ndjson"];
        names.map(|name| std::fs::read(folder.with_file_name(name)).unwrap())
    };
    let before = contents();
    for wrong in [
        &["nowhere.ndjson"][..],
        &["bad.ndjson", "--mapping", "nowhere.toml"],
        &["bad.ndjson", "--url", "nowhere"],
    ] {
        let output = env.output(&[&["load", "--restart"], wrong].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(contents(), before, "{wrong:?}");
    }
}
