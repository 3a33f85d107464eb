//! ClickHouse behind TLS: events arrive, also when connections break, and an untrusted server gets
//! none of them until that is fixed.

use super::test_env::{Engine, Load, PASSWORD, RATE, TestEnv, assert_all_acknowledged};
use super::tls_proxy::{Authority, TlsProxy};
use super::unusable::{MonitoredServer, ingest};
use crate::server::{LAST_TABLE, eventually, run};
use millrace_load::proxy::Proxy;
use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;
use tokio_rustls::TlsAcceptor;

/// Faults behind TLS, each with the number of times that it strikes.
const FAULTS: [(&str, u64); 5] = [
    ("answer=502", 4),
    ("lost inserts", 3),
    ("after=500:241 inserts", 3),
    ("cut-answer=40", 4),
    ("cut-request inserts", 4),
];
/// Times that the TLS proxy is killed in the middle of inserts.
const KILLS: u64 = 8;

#[test]
fn no_fault_behind_tls_loses_or_doubles_an_event() {
    let authority = Authority::new("ours");
    let mut tls_proxy = None;
    let dir = TempDir::new().unwrap();
    let env = TestEnv::start_through(dir, |proxy| {
        let made = TlsProxy::start(authority.certificate("localhost"), proxy.address());
        let args = made.args(&authority.file());
        tls_proxy = Some(made);
        args
    });
    let mut tls_proxy = tls_proxy.unwrap();
    let load = Load::start(env.plan(RATE));
    for (rule, strikes) in FAULTS {
        env.endure(&load, rule, strikes);
    }
    for _ in 0..KILLS {
        // An insert has begun by then, as several are always under way.
        let inserts = env.proxy.counts().inserts;
        eventually("an insert", || {
            (env.proxy.counts().inserts > inserts).then_some(())
        });
        let (address, retries) = (tls_proxy.address, env.retries());
        drop(tls_proxy);
        env.until_retries(retries, 1);
        let certificate = authority.certificate("localhost");
        tls_proxy = TlsProxy::start_at(address, certificate, env.proxy.address());
        env.until_shipping();
    }
    assert_all_acknowledged(&load.end());
    env.assert_exactly_once("millrace.events");
    assert_eq!(
        env.metric("millrace_insert_rows_dead_lettered_total", ""),
        0.0
    );
}

/// Connection to ClickHouse that cannot be trusted or understood.
struct Case {
    name: &'static str,
    certificate: fn(&Authority) -> TlsAcceptor,
    scheme: &'static str,
    /// True if `clickhouse_ca_file` names another authority.
    is_stranger: bool,
    /// Text of every report.
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
fn an_untrusted_connection_gets_no_events_and_is_reported_until_fixed() {
    let (authority, stranger, dir) = (
        Authority::new("ours"),
        Authority::new("another"),
        TempDir::new().unwrap(),
    );
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let upstream = engine.address();
    for (number, case) in CASES.iter().enumerate() {
        let tls_proxy = TlsProxy::start((case.certificate)(&authority), upstream);
        let ca_file = if case.is_stranger {
            &stranger
        } else {
            &authority
        }
        .file();
        let url = tls_proxy.url(case.scheme);
        let data_dir = dir.path().join(format!("ingest-{number}"));
        let mut args = vec!["--clickhouse-url", &url];
        if case.scheme == "https" {
            args.extend(["--clickhouse-ca-file", ca_file.to_str().unwrap()]);
        }
        is_reported_until_fixed(case.name, case.words, &engine, &data_dir, &args, &|| {
            let tls_proxy = TlsProxy::start(authority.certificate("localhost"), upstream);
            let args = tls_proxy.args(&authority.file());
            (Some(tls_proxy), args)
        });
    }
}

#[test]
fn a_server_without_tls_behind_an_https_url_gets_no_events_and_is_reported_until_fixed() {
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
    is_reported_until_fixed("no TLS", words, &engine, &data_dir, &args, &|| {
        (
            None,
            vec!["--clickhouse-url".to_owned(), engine.url.clone()],
        )
    });
}

/// Asserts that a server with `args` reports its problem and keeps its events, and that a start
/// with fixed arguments ships each of them once.
fn is_reported_until_fixed(
    case: &str,
    words: &str,
    engine: &Engine,
    data_dir: &Path,
    args: &[&str],
    fixed: &dyn Fn() -> (Option<TlsProxy>, Vec<String>),
) {
    let stored = || engine.query("SELECT count(), uniqExact(uuid) FROM millrace.events");
    let is_there = engine.query("EXISTS millrace.events") == "1";
    let before: u32 = if is_there {
        engine.stop_merges("millrace.events");
        stored().split('\t').next().unwrap().parse().unwrap()
    } else {
        0
    };
    // One for all cases, as ClickHouse takes the rows of one catalog only.
    let catalog = data_dir.with_file_name("catalog.db");
    let catalog = format!("sqlite://{}?mode=rwc", catalog.display());
    let catalog = ["--database-url", catalog.as_str()];
    let monitored = MonitoredServer::start(data_dir, &[args, &catalog].concat());
    monitored.assert_reports(case, words);
    let event = |number| json!({"event": "e", "distinct_id": format!("user-{number}")});
    let events: Vec<_> = (0..50).map(event).collect();
    monitored.server.capture(&json!(events));
    monitored.assert_counts_as_misconfigured(case.starts_with("TLS"));
    if is_there {
        assert_eq!(stored(), format!("{before}\t{before}"), "{case}");
    } else {
        assert_eq!(engine.query("EXISTS DATABASE millrace"), "0", "{case}");
    }
    assert!(monitored.server.stop().success());
    let (_tls_proxy, args) = fixed();
    let args: Vec<&str> = args.iter().map(String::as_str).chain(catalog).collect();
    let server = ingest(data_dir, &args);
    let all = before + 50;
    eventually(case, || {
        let there = engine.query("EXISTS millrace.events") == "1";
        (there && stored() == format!("{all}\t{all}")).then_some(())
    });
    assert!(server.stop().success());
}

#[test]
fn the_systems_authorities_are_trusted_without_a_ca_file_by_server_and_commands() {
    let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    let tls_proxy = TlsProxy::start(authority.certificate("localhost"), proxy.address());
    let url = tls_proxy.url("https");
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
            assert_advice(&output, is_trusted);
        }
    });
}

/// User and password of the engine.
pub const AS_USER: [&str; 4] = [
    "--clickhouse-user",
    "millrace",
    "--clickhouse-password",
    PASSWORD,
];

/// Runs a check with the arguments of a ClickHouse behind TLS, with its own authority and with
/// another one.
fn by_trust(url: &str, authority: &Authority, mut check: impl FnMut(&[&str], bool)) {
    let another = Authority::new("another");
    for (authority, is_trusted) in [(authority, true), (&another, false)] {
        let ca_file = authority.file();
        let ca_file = ca_file.to_str().unwrap();
        let by = ["--clickhouse-url", url, "--clickhouse-ca-file", ca_file];
        check(&by, is_trusted);
    }
}

/// Asserts that a command succeeds where ClickHouse is trusted, and names the setting where it is
/// not.
fn assert_advice(output: &Output, is_trusted: bool) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), is_trusted, "{output:?}");
    assert!(is_trusted || said.contains("clickhouse_ca_file"), "{said}");
}

#[test]
fn an_import_is_reconciled_over_tls_with_a_private_authority_and_backups_are_rejected() {
    let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let tls_proxy = TlsProxy::start(authority.certificate("localhost"), engine.address());
    let args = tls_proxy.args(&authority.file());
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
    assert_advice(&command(&["import", "load", "events.ndjson"]), true);
    by_trust(&tls_proxy.url("https"), &authority, |by, is_trusted| {
        let asked = [&["import", "reconcile"][..], by, &AS_USER].concat();
        let output = command(&asked);
        assert_advice(&output, is_trusted);
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said.contains("Every day and event"), is_trusted, "{said}");
        // Backups are for the embedded engine only; nothing is created.
        let output = command(&[&["backup", "copy"][..], by, &AS_USER].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("for the embedded ClickHouse"), "{said}");
        assert!(!dir.path().join("copy").exists());
    });
    assert!(server.stop().success());
}
