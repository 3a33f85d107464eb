//! Persons and exports over TLS to a ClickHouse with an authority of its own.

use super::test_env::{Engine, PASSWORD};
use super::tls::AS_USER;
use super::tls_proxy::{Authority, TlsProxy};
use crate::export_runs::{
    UNTHROTTLED, backfilled, each_once, export_to_files, exported, insert_of_past,
    organization_folder,
};
use crate::server::{LAST_TABLE, Server, eventually};
use serde_json::json;
use tempfile::TempDir;

/// `millrace serve` that reaches its ClickHouse by TLS only.
struct TlsServer {
    server: Server,
    engine: Engine,
    _tls_proxy: TlsProxy,
    _authority: Authority,
    _dir: TempDir,
}

impl TlsServer {
    /// Starts all parts, the server with these arguments, and waits for the tables.
    fn start(args: &[&str]) -> Self {
        let (authority, dir) = (Authority::new("ours"), TempDir::new().unwrap());
        let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
        let tls_proxy = TlsProxy::start(authority.certificate("localhost"), engine.address());
        let by_tls = tls_proxy.args(&authority.file());
        let by_tls: Vec<&str> = by_tls.iter().map(String::as_str).collect();
        let args = [&by_tls[..], &AS_USER, args].concat();
        let server = Server::start_with(&dir.path().join("server"), &args);
        eventually("the tables", || {
            let there = engine.query(&format!("EXISTS millrace.{LAST_TABLE}"));
            (there == "1").then_some(())
        });
        Self {
            server,
            engine,
            _tls_proxy: tls_proxy,
            _authority: authority,
            _dir: dir,
        }
    }
}

#[test]
fn persons_are_read_and_copied_over_tls_with_a_private_authority() {
    let env = TlsServer::start(&[]);
    env.server.capture(&json!([
        {"event": "seen", "distinct_id": "anonymous-1"},
        {"event": "$identify", "distinct_id": "ann",
         "properties": {"$anon_distinct_id": "anonymous-1", "$set": {"plan": "small"}}},
    ]));
    let expected = "seen\t{\"plan\":\"small\"}";
    eventually("the person of both ids", || {
        let found = env.engine.query(
            "SELECT event, person_properties FROM millrace.events_with_persons \
             WHERE event = 'seen'",
        );
        (found == expected).then_some(())
    });
}

#[test]
fn exports_are_read_over_tls_with_a_private_authority() {
    let root = TempDir::new().unwrap();
    let to_root = ["--export-root", root.path().to_str().unwrap()];
    let env = TlsServer::start(&[&to_root[..], &UNTHROTTLED].concat());
    env.engine.query(&insert_of_past(&env.server));
    let id = export_to_files(&env.server);
    backfilled(&env.server, &id);
    let files = organization_folder(root.path()).join("out");
    assert_eq!(exported(&files), each_once());
}
