//! ClickHouse behind TLS: events arrive, also when connections break, and a server that cannot be
//! trusted gets none of them until somebody has mended that.

use super::front::{Authority, Front};
use super::stand::{Engine, Load, PASSWORD, RATE, Stand, assert_all_acknowledged};
use super::unusable::{Told, ingest};
use crate::server::{LAST_TABLE, eventually, run};
use millrace_load::proxy::Proxy;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// What is done behind TLS, and how many times.
const FAULTS: [(&str, u64); 5] = [
    ("answer=502", 4),
    ("lost inserts", 3),
    ("after=500:241 inserts", 3),
    ("cut-answer=40", 4),
    ("cut-request inserts", 4),
];
/// Times that the TLS itself is killed in the middle of inserts.
const KILLS: u64 = 8;

#[test]
fn through_tls_too_no_fault_loses_or_doubles_an_event() {
    let authority = Authority::new("ours");
    let mut front = None;
    let dir = TempDir::new().unwrap();
    let stand = Stand::start_through(dir, |proxy| {
        let made = Front::start(authority.certificate("localhost"), proxy.address());
        let args = made.args(&authority.file());
        front = Some(made);
        args
    });
    let mut front = front.unwrap();
    let load = Load::start(stand.plan(RATE));
    for (rule, strikes) in FAULTS {
        stand.endure(&load, rule, strikes);
    }
    for _ in 0..KILLS {
        // An insert has begun by then, as more than one is always on its way.
        let inserts = stand.proxy.counts().inserts;
        eventually("an insert", || {
            (stand.proxy.counts().inserts > inserts).then_some(())
        });
        let (address, retries) = (front.address, stand.retries());
        drop(front);
        stand.until_retries(retries, 1);
        let certificate = authority.certificate("localhost");
        front = Front::start_at(address, certificate, stand.proxy.address());
        stand.until_shipping();
    }
    assert_all_acknowledged(&load.end());
    stand.assert_exactly_once("millrace.events");
    assert_eq!(
        stand.metric("millrace_insert_rows_set_aside_total", ""),
        0.0
    );
}

/// A way to ClickHouse that cannot be trusted or understood.
struct Case {
    name: &'static str,
    certificate: fn(&Authority) -> TlsAcceptor,
    scheme: &'static str,
    /// Whether the authority that is named is another one.
    is_stranger: bool,
    /// What everybody is told.
    words: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        name: "an unknown authority",
        certificate: |authority| authority.certificate("localhost"),
        scheme: "https",
        is_stranger: true,
        words: "clickhouse_ca_file",
    },
    Case {
        name: "another name",
        certificate: |authority| authority.certificate("clickhouse.example"),
        scheme: "https",
        is_stranger: false,
        words: "not for the name in clickhouse_url",
    },
    Case {
        name: "an expired certificate",
        certificate: |authority| authority.expired("localhost"),
        scheme: "https",
        is_stranger: false,
        words: "has expired",
    },
    Case {
        name: "TLS that is asked without",
        certificate: |authority| authority.certificate("localhost"),
        scheme: "http",
        is_stranger: false,
        words: "begin clickhouse_url with https://",
    },
];

#[test]
fn a_way_that_cannot_be_trusted_gets_nothing_and_is_named_until_it_is_mended() {
    let (authority, stranger, dir) = (
        Authority::new("ours"),
        Authority::new("another"),
        TempDir::new().unwrap(),
    );
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let upstream = engine.address();
    for (number, case) in CASES.iter().enumerate() {
        let front = Front::start((case.certificate)(&authority), upstream);
        let ca_file = if case.is_stranger {
            &stranger
        } else {
            &authority
        }
        .file();
        let url = front.url(case.scheme);
        let data_dir = dir.path().join(format!("ingest-{number}"));
        let mut args = vec!["--clickhouse-url", &url];
        if case.scheme == "https" {
            args.extend(["--clickhouse-ca-file", ca_file.to_str().unwrap()]);
        }
        is_named_and_mended(case.name, case.words, &engine, &data_dir, &args, &|| {
            let front = Front::start(authority.certificate("localhost"), upstream);
            let args = front.args(&authority.file());
            (Some(front), args)
        });
    }
}

#[test]
fn a_server_without_tls_behind_an_https_url_gets_nothing_and_is_named_until_it_is_mended() {
    let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let url = format!("https://{}", engine.address());
    let ca_file = authority.file();
    let args = [
        "--clickhouse-url",
        &url,
        "--clickhouse-ca-file",
        ca_file.to_str().unwrap(),
    ];
    let words = "begin it with http://";
    let data_dir = dir.path().join("ingest");
    is_named_and_mended("no TLS", words, &engine, &data_dir, &args, &|| {
        (
            None,
            vec!["--clickhouse-url".to_owned(), engine.url.clone()],
        )
    });
}

/// Events of a server that is started with `args` wait; a start with others ships them, each once.
fn is_named_and_mended(
    case: &str,
    words: &str,
    engine: &Engine,
    data_dir: &Path,
    args: &[&str],
    mended: &dyn Fn() -> (Option<Front>, Vec<String>),
) {
    let stored = || engine.query("SELECT count(), uniqExact(uuid) FROM millrace.events");
    let is_there = engine.query("EXISTS millrace.events") == "1";
    let before: u32 = if is_there {
        engine.stop_merges("millrace.events");
        stored().split('\t').next().unwrap().parse().unwrap()
    } else {
        0
    };
    let told = Told::start(data_dir, args);
    told.says(case, words);
    let event = |number| json!({"event": "e", "distinct_id": format!("user-{number}")});
    let events: Vec<_> = (0..50).map(event).collect();
    told.server.capture(&json!(events));
    told.counts_as_misconfigured(case.starts_with("TLS"));
    if is_there {
        assert_eq!(stored(), format!("{before}\t{before}"), "{case}");
    } else {
        assert_eq!(engine.query("EXISTS DATABASE millrace"), "0", "{case}");
    }
    assert!(told.server.stop().success());
    let (_front, args) = mended();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = ingest(data_dir, &args);
    let all = before + 50;
    eventually(case, || {
        let there = engine.query("EXISTS millrace.events") == "1";
        (there && stored() == format!("{all}\t{all}")).then_some(())
    });
    assert!(server.stop().success());
}

#[test]
fn the_systems_authorities_count_where_no_file_is_named_and_commands_go_by_the_same() {
    let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    let front = Front::start(authority.certificate("localhost"), proxy.address());
    let url = front.url("https");
    let data_dir = dir.path().join("ingest");
    let at = ["--clickhouse-url", &url];
    let mut command = super::unusable::ingest_command(&data_dir, &at);
    command.env("SSL_CERT_FILE", authority.file());
    let server = crate::server::Server::start_command(&mut command, &data_dir);
    server.capture(&json!([{"event": "e", "distinct_id": "d"}, {"distinct_id": "no name"}]));
    eventually("both events", || {
        let there = engine.query(&format!("EXISTS millrace.{LAST_TABLE}")) == "1";
        let counts = || {
            engine.query("SELECT count() FROM millrace.events")
                + &engine.query("SELECT count() FROM millrace.rejected_events")
        };
        (there && counts() == "11").then_some(())
    });
    let common = ["--data-dir", data_dir.to_str().unwrap()];
    let common = [&common[..], &AS_USER].concat();
    by_trust(&url, &authority, |by, is_trusted| {
        for command in [&["rejected", "list"][..], &["migrate"], &["purge"]] {
            let output = run(&[command, by, &common].concat());
            assert_told(&output, is_trusted);
        }
    });
}

const AS_USER: [&str; 4] = [
    "--clickhouse-user",
    "millrace",
    "--clickhouse-password",
    PASSWORD,
];

/// Does something with the arguments of a ClickHouse by TLS, once trusting its authority and once another one.
fn by_trust(url: &str, authority: &Authority, mut check: impl FnMut(&[&str], bool)) {
    let another = Authority::new("another");
    for (authority, is_trusted) in [(authority, true), (&another, false)] {
        let ca_file = authority.file();
        let ca_file = ca_file.to_str().unwrap();
        let by = ["--clickhouse-url", url, "--clickhouse-ca-file", ca_file];
        check(&by, is_trusted);
    }
}

/// A command that went well where ClickHouse is trusted, and said what is wrong where it is not.
fn assert_told(output: &Output, is_trusted: bool) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), is_trusted, "{output:?}");
    assert!(is_trusted || said.contains("clickhouse_ca_file"), "{said}");
}

#[test]
fn an_import_is_reconciled_by_tls_with_an_authority_of_ones_own_and_backups_are_refused() {
    let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let front = Front::start(authority.certificate("localhost"), engine.address());
    let args = front.args(&authority.file());
    let data_dir = dir.path().join("ingest");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = ingest(&data_dir, &args);
    let event = r#"{"event":"a","distinct_id":"b","timestamp":"2024-01-05"}"#;
    std::fs::write(dir.path().join("events.ndjson"), event).unwrap();
    let command = |args: &[&str]| {
        let mut command = crate::server::millrace();
        command.current_dir(&dir).args(args).arg("--data-dir");
        command.arg(&data_dir).output().unwrap()
    };
    assert_told(&command(&["import", "load", "events.ndjson"]), true);
    by_trust(&front.url("https"), &authority, |by, is_trusted| {
        let asked = [&["import", "reconcile"][..], by, &AS_USER].concat();
        let output = command(&asked);
        assert_told(&output, is_trusted);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.contains("Every day and event"), is_trusted, "{said}");
        // A backup is of the embedded engine alone, whoever is trusted; and nothing is made for it.
        let output = command(&[&["backup", "copy"][..], by, &AS_USER].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("for the embedded ClickHouse"), "{said}");
        assert!(!dir.path().join("copy").exists());
    });
    assert!(server.stop().success());
}
