//! The program itself, from its command line to its files.

use crate::server::Server;
use millrace_load::Summary;
use millrace_load::baseline::Work;
use millrace_load::hdr::{self, HdrLog};
use std::path::Path;
use std::process::{Command, Output};

fn load(folder: &Path, words: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_millrace-load"))
        .current_dir(folder)
        .args(words)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn results_and_pages_are_written_without_keys() {
    let server = Server::start(Work::Drain);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (name, key) in [
        ("a", "--key=phc_secret"),
        ("b", "--key=phc_secret,phc_other"),
    ] {
        let json = format!("{name}.json");
        let html = format!("{name}.html");
        let words = ["-q", "--url", &server.url, key, "--requests", "20"];
        let files = ["--json", &json, "--html", &html];
        load(dir, &[&words[..], &files].concat());
    }
    let compared = load(dir, &["compare", "a.json", "b.json", "--html", "both.html"]);
    assert!(
        String::from_utf8(compared.stdout)
            .unwrap()
            .contains("projects: 1 and 2")
    );
    for file in ["a.json", "b.json", "a.html", "b.html", "both.html"] {
        let text = std::fs::read_to_string(dir.join(file)).unwrap();
        assert!(text.contains("--key=…"), "{file}");
        assert!(!text.contains("phc_"), "{file}");
    }
    let read = Summary::read(&dir.join("b.json")).unwrap();
    assert_eq!(read.plan.keys.projects(), 2);
    assert!(
        read.command
            .starts_with("millrace-load -q --url http://127.0.0.1:")
    );
    assert_eq!(server.requests(), 40);
}

#[test]
fn all_files_of_two_runs_are_written_and_joined() {
    let server = Server::start(Work::Drain);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let read = |file: &str| std::fs::read_to_string(dir.join(file)).unwrap();
    for name in ["a", "b"] {
        let files = ["json", "hlog", "csv", "prom"].map(|end| format!("{name}.{end}"));
        let [json, hlog, csv, prom] = &files;
        let target = [
            "-q",
            "--url",
            &server.url,
            "--key=k",
            "--requests=20",
            "--mix=1,20",
        ];
        let files = [
            "--json",
            json,
            "--hdr-log",
            hlog,
            "--csv",
            csv,
            "--prometheus",
            prom,
        ];
        load(dir, &[&target[..], &files].concat());
        assert!(read(csv).starts_with("at_seconds,seconds,acknowledged_requests,"));
        let requests = "millrace_load_requests_total{outcome=\"acknowledged\"} 20\n";
        assert!(read(prom).contains(requests), "{}", read(prom));
        let log = HdrLog::parse(&read(hlog)).unwrap();
        assert_eq!(log.tagged(hdr::LATENCY).unwrap().len(), 20);
    }
    let files = [
        "--json",
        "all.json",
        "--hdr-log",
        "all.hlog",
        "--html",
        "all.html",
    ];
    let words = ["join", "a.json", "b.json", "--fail-if", "failed>0"];
    let joined = load(dir, &[&words[..], &files].concat());
    let text = String::from_utf8(joined.stdout).unwrap();
    assert!(text.contains("in 40 requests"), "{text}");
    let summary = Summary::read(&dir.join("all.json")).unwrap();
    assert_eq!(summary.latency.count, 40);
    assert_eq!(read("all.hlog"), summary.hdr_log);
    assert!(
        summary
            .command
            .starts_with("millrace-load join a.json b.json")
    );
}

#[test]
fn a_met_condition_ends_with_exit_code_1_and_its_figure() {
    let server = Server::start(Work::Tape);
    let dir = tempfile::tempdir().unwrap();
    for (condition, code, says) in [
        ("failed>0,p99>10m", 2, "p99 needs a time in us, ms or s"),
        ("failed>0,p99>600s", 0, ""),
        ("failed>0,rate>0", 1, "failed by rate>0: it is "),
        ("min>=0s,unsent>=0", 1, "failed by unsent>=0: it is 0\n"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace-load"))
            .current_dir(dir.path())
            .args(["-q", "--url", &server.url, "--key", "k", "--requests", "5"])
            .args(["--fail-if", condition, "--json", "run.json"])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{condition}: {said}");
        assert!(said.contains(says), "{condition}: {said}");
    }
    assert!(Summary::read(&dir.path().join("run.json")).is_ok());
}

#[test]
fn an_unusable_option_is_named_and_ends_with_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    for (words, says) in [
        (&["--key", "k"][..], "--url or --credentials is missing"),
        (
            &["--url", "http://h", "--keys-file", "none"],
            "cannot read the keys in none",
        ),
        (
            &["--url", "https://h", "--key", "k", "--ca", "none"],
            "cannot read none as PEM",
        ),
        (&["compare", "none", "none"], "cannot read none"),
        (&["join", "none"], "cannot read none"),
        (
            &["--url", "http://h", "--body-file", "none"],
            "cannot read none",
        ),
        (
            &["--url", "http://h/e/", "--key", "k", "--path", "/batch/"],
            "\"http://h/e/\" has a path",
        ),
        (
            &["drain-server", "--tls-cert", "c", "--tls-key", "k"],
            "cannot read c as PEM",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_millrace-load"));
        let output = command
            .current_dir(dir.path())
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(says), "{said}");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
}
