//! The program itself, from its command line to its files.

use crate::server::Server;
use millrace_load::Summary;
use millrace_load::baseline::Work;
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
