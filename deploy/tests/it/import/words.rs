//! Words of the stages: what is printed says what is, and what to do.

use super::Stand;
use super::stages::rejects;
use crate::away::front::{Authority, Front};
use crate::server::{millrace, post};
use serde_json::json;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const GOOD: &str = "{\"event\":\"a\",\"distinct_id\":\"b\",\"timestamp\":\"2024-01-05\"}\n";
const BAD: &str = "{\"event\":\"a\",\"distinct_id\":\"b\"}\n";

/// What a command printed, results first.
fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr]
        .map(String::from_utf8_lossy)
        .concat()
}

/// The last command that a text says to go on with.
fn next(text: &str) -> Vec<String> {
    let mut commands = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("millrace "));
    shlex::split(commands.next_back().unwrap()).unwrap()
}

#[test]
fn reconcile_counts_what_was_loaded_and_says_how_others_are_left_out() {
    let stand = Stand::start();
    let other = GOOD.replace("\"a\"", "\"c\"");
    std::fs::write(stand.path("one.ndjson"), GOOD).unwrap();
    std::fs::write(stand.path("two.ndjson"), [GOOD, &other].concat()).unwrap();
    assert!(stand.output(&["check", "one.ndjson"]).status.success());
    assert!(stand.output(&["load", "two.ndjson"]).status.success());
    stand.wait_for_events(2);
    let told = said(&stand.output(&["reconcile", "two.ndjson"]));
    for words in [
        "Source            2 events, where the last `import check` here counted 1: of other files",
        "Every day and event is stored",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(stand.output(&["check", "two.ndjson"]).status.success());
    let told = said(&stand.output(&["reconcile", "two.ndjson"]));
    assert!(told.contains("Source            2 events\n"), "{told}");

    let stray = json!({ "api_key": stand.server.credential("project_api_key"), "historical_migration": true,
        "batch": [{ "event": "stray", "distinct_id": "a", "timestamp": "2024-02-01" }]});
    let url = format!("{}/batch/", stand.server.credential("ingest_url"));
    assert_eq!(post(&url, &stray.to_string()).0, 200);
    stand.wait_for_events(3);
    let output = stand.output(&["reconcile", "two.ndjson", "--wait", "0"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("those stored more came from elsewhere"),
        "{told}"
    );
    assert!(!told.contains("are missing"), "{told}");
    let next = next(&told);
    assert!(next.contains(&"--allow-more".to_owned()), "{told}");
    let mut again = millrace();
    let again = again.current_dir(&stand.home).args(&next).output().unwrap();
    assert!(again.status.success(), "{again:?}");
    mended_rejects_are_no_other_file(&stand);
}

fn mended_rejects_are_no_other_file(stand: &Stand) {
    std::fs::write(stand.path("bad.ndjson"), [GOOD, BAD].concat()).unwrap();
    let staged = |args: &[&str]| said(&stand.output(&[args, &["--staging", "mended"]].concat()));
    let (checked, loaded) = (
        staged(&["check", "bad.ndjson"]),
        staged(&["load", "bad.ndjson"]),
    );
    assert!(
        checked.contains("1 of 2 records would be rejected"),
        "{checked}"
    );
    assert!(loaded.contains("1 record rejected"), "{loaded}");
    let path = rejects(stand).replace("millrace-import", "mended");
    let text = std::fs::read_to_string(stand.path(&path)).unwrap();
    let mended = text.replace(BAD.trim_end(), GOOD.trim_end());
    std::fs::write(stand.path(&path), mended).unwrap();
    let resent = staged(&["load", "--rejects", &path]);
    assert!(resent.contains("2 events accepted"), "{resent}");
    let told = staged(&["report"]);
    assert!(told.contains("  1/1  "), "{told}");
    let told = staged(&["reconcile", "bad.ndjson", "--allow-more"]);
    let words = "counted 1: of other files, of a part of them, by another mapping, or before rejects were mended";
    assert!(told.contains(words), "{told}");
}

#[test]
fn a_load_to_a_wrong_address_ends_at_once_and_says_which_would_be_right() {
    let stand = Stand::start();
    // More than is in the buffers of a connection that is ended before all was read.
    std::fs::write(stand.path("events.ndjson"), GOOD.repeat(100_000)).unwrap();
    let ingest = stand.server.credential("ingest_url");
    let by_tls = ingest.replace("http://", "https://");
    let address = ingest.strip_prefix("http://").unwrap().parse().unwrap();
    let authority = Authority::new("nobody's");
    let front = Front::start(authority.certificate("localhost"), address);
    let table = [
        (by_tls, "does not speak TLS; begin --url with http://"),
        (
            stand.server.credential("admin_url"),
            "not that of the organization API",
        ),
        (stand.server.credential("health_url"), "check --url"),
        (stand.server.credential("clickhouse_url"), "check --url"),
        (
            front.url("http"),
            "begin --url with https:// if it speaks TLS",
        ),
        (
            front.url("https"),
            "shows a certificate that is not trusted",
        ),
    ];
    let key = stand.server.credential("project_api_key");
    for (url, words) in table {
        let begun = Instant::now();
        let output = stand.output(&[
            "load",
            "events.ndjson",
            "--url",
            &url,
            "--project-key",
            &key,
        ]);
        let told = said(&output);
        assert_eq!(output.status.code(), Some(1), "{url}: {told}");
        assert!(told.contains(words), "{url}: {told}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{url}: {told}");
    }
    // None of them left anything that the right one would stumble over.
    let output = stand.output(&["load", "events.ndjson"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn an_address_that_is_none_of_ours_ends_every_stage_at_once() {
    let stand = Stand::start();
    std::fs::write(stand.path("events.ndjson"), GOOD).unwrap();
    assert!(stand.output(&["load", "events.ndjson"]).status.success());
    let ingest = stand.server.credential("ingest_url");
    let key = stand.server.credential("project_api_key");
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
            let output = stand.output(&[&[stage, "events.ndjson"], &address[..]].concat());
            let told = said(&output);
            assert_eq!(output.status.code(), Some(1), "{stage} {url}: {told}");
            assert!(told.contains(&words), "{stage} {url}: {told}");
        }
    }
    let elsewhere = stand.output(&["reconcile", "--url", "http://127.0.0.1:9"]);
    let told = said(&elsewhere);
    let words = format!("this import went to {ingest}; leave --url out");
    assert!(told.contains(&words), "{told}");
    let here = stand.output(&["reconcile", "events.ndjson", "--url", &format!("{ingest}/")]);
    assert!(here.status.success(), "{here:?}");
}

#[test]
fn what_is_no_file_is_refused_and_what_a_shell_pipes_is_read() {
    let stand = Stand::start();
    let pipe = stand.path("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let _socket = UnixListener::bind(stand.path("socket")).unwrap();
    std::fs::create_dir(stand.path("folder")).unwrap();
    std::fs::rename(&pipe, stand.path("folder/pipe")).unwrap();
    std::fs::write(stand.path("good.ndjson"), GOOD).unwrap();
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
            let output = stand.output(&[stage, "good.ndjson", name]);
            let told = said(&output);
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
            let output = bash.current_dir(&stand.home).output().unwrap();
            let told = said(&output);
            assert!(output.status.success(), "{stage} {file}: {told}");
            let counts = ["Records           1", "1 record: 1 event accepted"];
            assert!(counts.iter().any(|it| told.contains(it)), "{file}: {told}");
        }
    }
    // Records without ids of their own are told apart by what their file is called, too.
    stand.wait_for_events(3);
}

#[test]
fn a_place_in_a_file_is_told_where_there_is_one() {
    let stand = Stand::start();
    std::fs::write(stand.path("cut.parquet"), "PAR1, and no more").unwrap();
    std::fs::write(stand.path("cut.json"), format!("[{GOOD}, {GOOD}")).unwrap();
    let table = [
        ("cut.parquet", "is no Parquet that can be read", "at byte"),
        ("cut.json", "(at byte 117 of its contents)", "decompressed"),
    ];
    for (file, words, others) in table {
        let told = said(&stand.output(&["check", file]));
        assert!(told.contains(words), "{file}: {told}");
        assert!(!told.contains(others), "{file}: {told}");
    }
}

#[test]
fn a_load_says_how_many_of_its_rejects_are_still_in_their_file() {
    let stand = Stand::start();
    std::fs::write(stand.path("bad.ndjson"), [GOOD, BAD, BAD, BAD].concat()).unwrap();
    let path = stand.path(&rejects(&stand));
    let load = || said(&stand.output(&["load", "bad.ndjson"]));
    let told = load();
    let name = rejects(&stand);
    assert!(
        told.contains(&format!(
            "They are in {name}, one on each line, with reason, file and line. Mend"
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
fn a_check_says_to_send_what_can_be_read_and_would_be_taken() {
    let stand = Stand::start();
    std::fs::write(stand.path("good.ndjson"), GOOD).unwrap();
    std::fs::write(stand.path("empty.ndjson"), "").unwrap();
    std::fs::write(stand.path("cut.parquet"), "PAR1, and no more").unwrap();
    std::fs::write(stand.path("mixed.ndjson"), [GOOD, BAD].concat()).unwrap();
    let table = [
        (&["good.ndjson"][..], true),
        (&["good.ndjson", "cut.parquet"], false),
        (&["cut.parquet"], false),
        (&["empty.ndjson"], false),
        (&["mixed.ndjson"], false),
    ];
    for (files, expected) in table {
        let told = said(&stand.output(&[&["check"], files].concat()));
        assert_eq!(told.contains("Send them:"), expected, "{files:?}: {told}");
        let without = told.contains("Send them without what would be rejected");
        assert_eq!(without, files.contains(&"mixed.ndjson"), "{told}");
    }
}

#[test]
fn a_restart_that_cannot_begin_forgets_nothing() {
    let stand = Stand::start();
    std::fs::write(stand.path("bad.ndjson"), [GOOD, BAD].concat()).unwrap();
    assert!(stand.output(&["load", "bad.ndjson"]).status.success());
    let folder = stand.path(&rejects(&stand));
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
        let output = stand.output(&[&["load", "--restart"], wrong].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(contents(), before, "{wrong:?}");
    }
}
