//! Panics, as mistakes of ours would cause them: how far each goes.

use crate::import_limits::NO_ENGINE;
use crate::server::{Server, error_line, eventually, on_own_ports, warnings};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Data folder of a test, and the log of the server that it started last.
struct TestEnv {
    dir: TempDir,
}

impl TestEnv {
    fn new() -> Self {
        if !cfg!(feature = "failpoints") {
            panic!(
                "the program has no panic points: test with --all-features, as `make test` does"
            );
        }
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("stderr")
    }

    /// Command that starts a mode, to panic at a point.
    fn command(&self, mode: &str, args: &[&str], point: Option<&str>) -> Command {
        let mut command = on_own_ports(mode, &self.data_dir());
        command.args(args).stderr(File::create(self.log()).unwrap());
        if let Some(point) = point {
            command.env("MILLRACE_PANIC_POINT", point);
        }
        command
    }

    /// Command that starts `millrace ingest` without a ClickHouse.
    fn ingest_command(&self, point: Option<&str>) -> Command {
        // Nothing is shipped, so a stop need not wait for it.
        let args = [&NO_ENGINE[..], &["--grace-seconds", "1"]].concat();
        self.command("ingest", &args, point)
    }

    /// Starts `millrace ingest` without a ClickHouse.
    fn ingest(&self, point: Option<&str>) -> Server {
        Server::start_command(&mut self.ingest_command(point), &self.data_dir())
    }

    /// Starts `millrace serve`.
    fn serve(&self, point: Option<&str>) -> Server {
        let mut command = self.command("serve", &[], point);
        Server::start_command(&mut command, &self.data_dir())
    }

    /// Error that the last server ended with.
    fn error(&self) -> String {
        error_line(&fs::read_to_string(self.log()).unwrap()).to_owned()
    }
}

/// Posts an event; returns status and body, or nothing if the connection was cut.
fn post(server: &Server, name: &str) -> Option<(u16, Value)> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let body = json!({
        "api_key": server.credential("project_api_key"),
        "batch": [{"event": name, "distinct_id": "d"}],
    });
    let url = format!("{}/batch/", server.credential("ingest_url"));
    let mut answer = agent.post(&url).send(body.to_string()).ok()?;
    let text = answer.body_mut().read_to_string().ok()?;
    let body = serde_json::from_str(&text).unwrap_or_default();
    Some((answer.status().as_u16(), body))
}

fn assert_stores(server: &Server, name: &str) {
    let (status, body) = post(server, name).expect("an answer");
    assert_eq!(status, 200, "{body}");
}

#[test]
fn a_panic_of_what_all_events_depend_on_ends_the_server_with_an_error() {
    for (point, reason) in [
        ("connection-accepted", "ingestion failed: a worker panicked"),
        ("group-taken", "the commit thread panicked"),
        (
            "frame-read",
            "shipping stopped: the shipper stopped, as one of its tasks failed: the live log",
        ),
    ] {
        let env = TestEnv::new();
        let mut server = env.ingest(Some(point));
        // Whatever is answered, or nothing.
        let _ = post(&server, "first");
        let status = server.wait();
        let error = env.error();
        assert_eq!(status.code(), Some(1), "{point}: {error}");
        assert!(error.contains(reason), "{point}: {error}");
        let server = env.ingest(None);
        assert_stores(&server, "second");
        assert!(server.stop().success(), "{point}");
    }
}

#[test]
fn a_panic_of_what_exports_and_imports_wait_for_ends_the_server_with_an_error() {
    for (point, reason) in [
        ("watermark-named", "the watermark stands still: task"),
        ("watermark-published", "the watermark stands still: task"),
        ("leases-renewed", "imports are no longer counted: task"),
    ] {
        let env = TestEnv::new();
        // These are passed without a request, perhaps before the server is up.
        let mut command = env.ingest_command(Some(point));
        let status = Server::start_to_end(&mut command, &env.data_dir()).wait();
        let error = env.error();
        assert_eq!(status.code(), Some(1), "{point}: {error}");
        assert!(error.contains(reason), "{point}: {error}");
        let server = env.ingest(None);
        assert_stores(&server, "second");
        assert!(server.stop().success(), "{point}");
    }
}

#[test]
fn a_panic_of_a_request_ends_that_request_alone() {
    let env = TestEnv::new();
    let server = env.ingest(Some("request-submitted"));
    assert_eq!(post(&server, "first"), None);
    assert_stores(&server, "second");
    let counted = server.metric("millrace_ingest_panics_total");
    assert_eq!(counted, Some(1.0));
    assert!(server.stop().success());
    let said = warnings(&env.log());
    assert!(said.contains("a request panicked"), "{said}");
}

/// Segment's file that an error names.
fn named_file(error: &str) -> &str {
    let (_, rest) = error.split_once("in its file ").expect("a file");
    let (file, _) = rest.split_once(": ").expect("a reason");
    file
}

/// Starts `millrace ingest` on a folder whose log has only this segment's file, with the catalog
/// and the ClickHouse of these arguments.
fn ship_alone(file: &Path, data_dir: &Path, databases: &[String]) -> Server {
    let live = data_dir.join("log/live");
    fs::create_dir_all(&live).unwrap();
    fs::copy(file, live.join(file.file_name().unwrap())).unwrap();
    let args: Vec<&str> = databases.iter().map(String::as_str).collect();
    Server::start_mode("ingest", data_dir, &args)
}

#[test]
fn a_segment_that_ends_each_start_is_moved_away_and_shipped_from_a_folder_of_its_own() {
    let env = TestEnv::new();
    let server = env.serve(None);
    assert_stores(&server, "before");
    server.wait_for("SELECT count() FROM millrace.events", "1");
    assert!(server.stop().success());
    let mut server = env.serve(Some("frame-read"));
    // The frame may be read, and the server ended, before the answer is sent.
    let _ = post(&server, "within");
    assert!(!server.wait().success());
    let error = env.error();
    drop(server);
    let mut again = env.command("serve", &[], Some("frame-read"));
    let again = Server::start_to_end(&mut again, &env.data_dir()).wait();
    assert!(!again.success(), "it does not end again");
    assert_eq!(env.error(), error, "it names another file");

    let aside = env.dir.path().join(named_file(&error));
    let segment = env.data_dir().join("log/live").join(named_file(&error));
    fs::rename(&segment, &aside).unwrap();
    let server = env.serve(None);
    assert_stores(&server, "behind");
    server.wait_for("SELECT count() FROM millrace.events", "2");
    let own = env.dir.path().join("own");
    let catalog = env.data_dir().join("catalog.db");
    let catalog = format!("sqlite://{}?mode=rwc", catalog.display());
    let mut databases = server.clickhouse_args();
    databases.extend(["--database-url".to_owned(), catalog]);
    let names = "SELECT arrayStringConcat(arraySort(groupArray(event)), ' ') FROM millrace.events";
    // The second time its row is found, and not stored again.
    for _ in 0..2 {
        let shipper = ship_alone(&aside, &own, &databases);
        // What is found counts, too: without it the second shipper may not have begun.
        let inserts = "millrace_inserts_total{lane=\"live\"}";
        eventually("an insert that is settled", || {
            shipper.metric(inserts).filter(|count| *count >= 1.0)
        });
        server.wait_for(names, "before behind within");
        assert!(shipper.stop().success());
        fs::remove_dir_all(&own).unwrap();
    }
    server.wait_for(names, "before behind within");
}
