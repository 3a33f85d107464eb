//! TLS on the listeners of a whole server, as curl sees it.

use crate::server::{Server, eventually, on_addresses, on_own_ports};
use millrace_tls::TlsFiles;
use millrace_tls::testing::{TestAuthority, renew};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

/// ClickHouse that is not there: nothing of this needs one.
const NOWHERE: [&str; 2] = ["--clickhouse-url", "http://127.0.0.1:9"];

/// Command for a server with TLS.
fn serve(data_dir: &Path, files: &TlsFiles) -> Command {
    let mut command = on_own_ports("serve", data_dir);
    command.args(NOWHERE).arg("--tls-cert");
    command.arg(&files.certificate);
    command.arg("--tls-key").arg(&files.key);
    if let Some(authority) = &files.client_authority {
        command.arg("--tls-client-ca").arg(authority);
    }
    command
}

/// Asks by curl, which trusts one authority alone.
fn curl(authority: &TestAuthority, url: &str, args: &[&str]) -> Output {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "20"]);
    command.arg("--cacert").arg(authority.certificate());
    command.args(args).arg(url).output().unwrap()
}

/// Text that curl gets.
fn text_of(authority: &TestAuthority, url: &str, args: &[&str]) -> String {
    let output = curl(authority, url, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{url} {args:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_listener_answers_both_versions_and_shows_https() {
    let home = TempDir::new().unwrap();
    let authority = TestAuthority::new();
    let files = authority.files_until("127.0.0.1", 2031);
    let server = Server::start_command(&mut serve(home.path(), &files), home.path());
    let [ingest, admin, health] =
        ["ingest_url", "admin_url", "health_url"].map(|name| server.credential(name));
    for url in [&ingest, &admin, &health] {
        assert!(url.starts_with("https://127.0.0.1:"), "{url}");
        assert!(server.banner().contains(url), "{}", server.banner());
    }
    let paths = [
        format!("{ingest}/_health/live"),
        format!("{admin}/api/schema/"),
        format!("{health}/_health/live"),
    ];
    for path in &paths {
        for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
            text_of(&authority, path, version);
        }
        // Others than HTTPS are told to use it.
        let plain = path.replacen("https", "http", 1);
        let status = ["--no-fail", "--write-out", "%{http_code}"];
        let told = text_of(&authority, &plain, &status);
        assert!(told.contains("https_required"), "{told}");
        assert!(told.ends_with("400"), "{told}");
    }
    let key = server.credential("project_api_key");
    let event = serde_json::json!({"event": "e", "distinct_id": "d"});
    let body = serde_json::json!({"api_key": key, "batch": [event]}).to_string();
    let json = [
        "--header",
        "Content-Type: application/json",
        "--data",
        &body,
    ];
    text_of(&authority, &format!("{ingest}/batch/"), &json);
    let metrics = text_of(&authority, &format!("{health}/metrics"), &[]);
    // 1 January 2031.
    let expiry = "millrace_tls_certificate_expiry_timestamp_seconds 1924992000";
    assert!(metrics.contains(expiry), "{metrics}");
    assert!(server.stop().success());
}

#[test]
fn a_renewed_certificate_is_served_and_a_bad_one_is_not() {
    let home = TempDir::new().unwrap();
    let (former, present) = (TestAuthority::new(), TestAuthority::new());
    let files = former.files("127.0.0.1");
    let log = home.path().join("log.txt");
    let data_dir = home.path().join("data");
    let mut command = serve(&data_dir, &files);
    command.stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command, &data_dir);
    let url = format!("{}/metrics", server.credential("health_url"));
    text_of(&former, &url, &[]);
    renew(&files, &present.files("127.0.0.1"));
    let is_renewed = || curl(&present, &url, &[]).status.success().then_some(());
    eventually("the new certificate", is_renewed);
    assert!(!curl(&former, &url, &[]).status.success());

    std::fs::write(&files.certificate, "no certificate").unwrap();
    eventually("a sign of the bad certificate", || {
        let metrics = text_of(&present, &url, &[]);
        let is_failing = metrics.contains("millrace_tls_reload_failing 1");
        is_failing.then_some(())
    });
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("the earlier one stays in use"), "{said}");
    assert!(said.contains("tls_cert is "), "{said}");
}

#[test]
fn settings_of_tls_that_do_not_fit_are_refused_with_advice() {
    let home = TempDir::new().unwrap();
    let (authority, other) = (TestAuthority::new(), TestAuthority::new());
    let files = authority.files("127.0.0.1");
    let [cert, key] = [&files.certificate, &files.key].map(|path| path.to_str().unwrap());
    let other = other.files("127.0.0.1").key;
    let table = [
        (vec!["--tls-cert", cert], "give also tls_key"),
        (vec!["--tls-key", key], "give also tls_cert"),
        (
            vec!["--tls-client-ca", cert],
            "give also tls_cert and tls_key",
        ),
        (
            vec!["--tls-cert", "/nonexistent.pem", "--tls-key", key],
            "tls_cert is /nonexistent.pem, which cannot be read",
        ),
        (
            vec!["--tls-cert", cert, "--tls-key", cert],
            "which has no private key without a password in PEM",
        ),
        (
            vec!["--tls-cert", cert, "--tls-key", other.to_str().unwrap()],
            "tls_cert and tls_key cannot be used together",
        ),
    ];
    for (args, expected) in table {
        let data_dir = home.path().join("data");
        let mut command = on_own_ports("serve", &data_dir);
        let output = command.args(NOWHERE).args(&args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert!(!data_dir.exists(), "{args:?} leaves something behind");
    }
}

#[test]
fn listeners_without_tls_that_others_reach_are_warned_of_once() {
    let home = TempDir::new().unwrap();
    let log = home.path().join("log.txt");
    let data_dir = home.path().join("data");
    let mut command = on_addresses("serve", &data_dir, "0.0.0.0:0", "0.0.0.0:0");
    command.args(NOWHERE).stderr(File::create(&log).unwrap());
    let server = Server::start_command(&mut command, &data_dir);
    let said = std::fs::read_to_string(&log).unwrap();
    let expected = "other machines can reach ingest_addr 0.0.0.0:0 and health_addr 0.0.0.0:0";
    assert_eq!(said.matches("without TLS").count(), 1, "{said}");
    assert!(said.contains(expected), "{said}");
    drop(server);
}
