//! Copied or restored data folders, with a common catalog or one each. Copies of running ones, with
//! a catalog that processes share over the network, are in `fleet/names.rs`.

use crate::clickhouse_outage::test_env::{Engine, PASSWORD};
use crate::server::{LAST_TABLE, Server, eventually, on_own_ports};
use millrace_catalog::testing::TestDatabase;
use millrace_load::proxy::Proxy;
use serde_json::json;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Address at which ClickHouse is down, so that events wait.
const NOWHERE: &str = "http://127.0.0.1:9";
/// Pairs of an accepted and a rejected event in each request.
const PAIRS: usize = 20;
/// Texts of the log when a copy waits, and when it begins to ship.
const HOLDS: &str = "nothing is sent to ClickHouse";
const BEGINS: &str = "shipping begins";

/// Folders of nodes with one catalog.
struct CopiedFolders {
    dir: TempDir,
    database: TestDatabase,
}

impl CopiedFolders {
    fn new(database: TestDatabase) -> Self {
        let dir = TempDir::new().unwrap();
        Self { dir, database }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn args<'a>(&'a self, clickhouse_url: &'a str) -> [&'a str; 8] {
        let database = self.database.url();
        [
            ["--clickhouse-url", clickhouse_url],
            ["--clickhouse-user", "millrace"],
            ["--clickhouse-password", PASSWORD],
            ["--database-url", database],
        ]
        .concat()
        .try_into()
        .unwrap()
    }

    /// Starts a node, and waits for its first watermark.
    fn start(&self, name: &str) -> Server {
        self.start_on(name, NOWHERE)
    }

    /// Starts a node that ships to this ClickHouse.
    fn start_on(&self, name: &str, clickhouse_url: &str) -> Server {
        let folder = self.folder(name);
        let log = File::create(self.folder(&format!("{name}.log"))).unwrap();
        let mut command = on_own_ports("ingest", &folder);
        let command = command.args(self.args(clickhouse_url));
        let server = Server::start_command(command.stderr(log), &folder);
        eventually("its watermark", || {
            server.metric("millrace_watermark_age_seconds")
        });
        server
    }

    fn until_logged(&self, name: &str, text: &str) {
        eventually(text, || self.log(name).contains(text).then_some(()));
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder(&format!("{name}.log"))).unwrap()
    }

    /// Starts a node that must be rejected; returns its error output.
    fn refused(&self, name: &str) -> String {
        let mut command = on_own_ports("ingest", &self.folder(name));
        let Output { status, stderr, .. } = command.args(self.args(NOWHERE)).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        said
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.folder(from), &self.folder(to));
    }
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, to).unwrap()),
        }
    }
}

/// Sends events that are accepted, say something of a person, and are rejected.
fn capture(server: &Server) {
    let pair = |number: usize| {
        let id = format!("user-{number}");
        [
            json!({"event": "seen", "distinct_id": id, "properties": {"$set": {"n": number}}}),
            json!({"event": "lost"}),
        ]
    };
    let batch: Vec<_> = (0..PAIRS).flat_map(pair).collect();
    server.capture(&json!(batch));
}

/// Rows of the tables of which ClickHouse merges none, and events, of which it merges those that
/// are stored twice.
fn rows(engine: &Engine) -> [usize; 3] {
    let counts = [
        "count() FROM millrace.rejected_events",
        "count() FROM millrace.person_updates",
        "uniqExact(uuid) FROM millrace.events",
    ];
    counts.map(|count| engine.query(&format!("SELECT {count}")).parse().unwrap())
}

/// Waits until this many requests are stored.
fn until_stored(engine: &Engine, requests: usize) {
    eventually("the rows", || {
        let exists = engine.query(&format!("EXISTS millrace.{LAST_TABLE}"));
        (exists == "1" && rows(engine) == [requests * PAIRS; 3]).then_some(())
    });
}

/// Waits until all that a node had in its log is settled.
fn until_shipped(copies: &CopiedFolders, name: &str, server: &Server) {
    copies.until_logged(name, BEGINS);
    // While anything of before waits, no watermark passes it.
    eventually("the log's end", || {
        let age = server.metric("millrace_watermark_age_seconds")?;
        (age < 3.0).then_some(())
    });
}

pub fn host() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    name.trim().to_owned()
}

fn an_older_copy_does_not_start_beside_its_original(database: TestDatabase) {
    let copies = CopiedFolders::new(database);
    assert!(copies.start("original").stop().success());
    copies.copy("original", "copy");
    let original = copies.start("original");
    let said = copies.refused("copy");
    let node_file = copies.folder("copy").join("node");
    for word in [
        "another copy",
        &host(),
        "Stop the other one",
        node_file.to_str().unwrap(),
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(copies.log("original").matches("another copy").count(), 0);
    // As a node of its own it may run.
    fs::remove_file(node_file).unwrap();
    let copy = copies.start("copy");
    for server in [original, copy] {
        assert!(server.stop().success());
    }
    assert!(!copies.log("copy").contains("another copy"));
}

fn the_first_of_two_running_copies_ends_with_a_reason(database: TestDatabase) {
    let copies = CopiedFolders::new(database);
    drop(copies.start("original"));
    // A start does not wait after a crash.
    let mut original = copies.start("original");
    copies.copy("original", "copy");
    let copy = copies.start("copy");
    assert_eq!(original.wait().code(), Some(1));
    let said = copies.log("original");
    for word in ["another copy", &host(), "only one may run"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // The original does not start again while the copy runs, or may run.
    assert!(copies.refused("original").contains("another copy"));
    assert!(copy.stop().success());
    assert!(!copies.log("copy").contains("another copy"));
    // It goes on once the copy has stopped.
    let original = copies.start("original");
    let said = copies.log("original");
    let warned = said.lines().find(|line| line.contains("another copy"));
    assert!(warned.unwrap().contains("WARN"), "{said}");
    assert!(original.stop().success());
    assert!(copies.start("original").stop().success());
    assert!(!copies.log("original").contains("another copy"));
}

fn a_folder_that_is_brought_back_ships_all_once(database: TestDatabase) {
    let copies = CopiedFolders::new(database);
    let engine = Engine::start(&copies.folder("engine"), PASSWORD);
    // The last request waits when the folder is copied.
    let original = copies.start_on("original", &engine.url);
    capture(&original);
    until_stored(&engine, 1);
    assert!(original.stop().success());
    let original = copies.start("original");
    capture(&original);
    drop(original);
    copies.copy("original", "copy");
    let original = copies.start_on("original", &engine.url);
    until_stored(&engine, 2);
    capture(&original);
    until_stored(&engine, 3);
    assert!(original.stop().success());
    let said = copies.log("original");
    assert!(
        !said.contains(HOLDS),
        "after a kill it need not wait: {said}"
    );
    let copy = copies.start_on("copy", &engine.url);
    capture(&copy);
    until_stored(&engine, 4);
    assert!(copy.stop().success());
    assert_eq!(rows(&engine), [4 * PAIRS; 3]);
    let said = copies.log("copy");
    let warned = said.lines().find(|line| line.contains("another copy"));
    assert!(warned.unwrap().contains("WARN"), "{said}");
    assert!(!said.contains(HOLDS), "it need not have waited: {said}");
}

/// Regression: without a catalog outside the folder, nothing tells that it was brought back, and
/// ClickHouse took new rows for those that it had stored under the names of before.
#[test]
fn a_folder_with_its_own_catalog_that_is_brought_back_stores_each_request_once() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let (folder, kept) = (dir.path().join("node"), dir.path().join("kept"));
    let args = [
        ["--clickhouse-url", &engine.url],
        ["--clickhouse-user", "millrace"],
        ["--clickhouse-password", PASSWORD],
    ]
    .concat();
    let start = || {
        let mut command = on_own_ports("ingest", &folder);
        Server::start_command(command.args(&args), &folder)
    };
    assert!(start().stop().success());
    copy(&folder, &kept);
    let server = start();
    capture(&server);
    until_stored(&engine, 1);
    assert!(server.stop().success());
    fs::remove_dir_all(&folder).unwrap();
    copy(&kept, &folder);
    let server = start();
    capture(&server);
    until_stored(&engine, 2);
    assert!(server.stop().success());
    assert_eq!(rows(&engine), [2 * PAIRS; 3]);
}

/// Distinct keys of the rows in these tables.
fn distinct(engine: &Engine) -> [usize; 3] {
    let keys = [
        "(request_id, `index`)) FROM millrace.rejected_events",
        "(request_id, `index`)) FROM millrace.person_updates",
        "uuid) FROM millrace.events",
    ];
    keys.map(|keys| {
        let count = engine.query(&format!("SELECT uniqExact({keys}"));
        count.parse().unwrap()
    })
}

/// Copies with a catalog each do not hear of one another, so both ship what waited in both.
#[test]
fn copies_with_a_catalog_each_lose_nothing_and_store_no_row_more_than_twice() {
    let dir = TempDir::new().unwrap();
    let engine = Engine::start(&dir.path().join("engine"), PASSWORD);
    let start = |name: &str, clickhouse_url: &str| {
        let folder = dir.path().join(name);
        let args = [
            ["--clickhouse-url", clickhouse_url],
            ["--clickhouse-user", "millrace"],
            ["--clickhouse-password", PASSWORD],
        ]
        .concat();
        let mut command = on_own_ports("ingest", &folder);
        Server::start_command(command.args(&args), &folder)
    };
    let original = start("original", NOWHERE);
    capture(&original);
    drop(original);
    copy(&dir.path().join("original"), &dir.path().join("copy"));
    let both = ["original", "copy"].map(|name| start(name, &engine.url));
    both.iter().for_each(capture);
    eventually("the rows", || {
        let exists = engine.query(&format!("EXISTS millrace.{LAST_TABLE}"));
        (exists == "1" && distinct(&engine) == [3 * PAIRS; 3]).then_some(())
    });
    for server in both {
        assert!(server.stop().success());
    }
    let [rejected, updates, events] = rows(&engine);
    assert_eq!(events, 3 * PAIRS);
    for count in [rejected, updates] {
        assert!((3 * PAIRS..=4 * PAIRS).contains(&count), "{count}");
    }
}

/// Copies a node's folder while it runs with events that wait. Then the copy can reach ClickHouse,
/// and the original a little later.
fn run_both_with_one_backlog(copies: &CopiedFolders, as_own_node: bool) {
    let engine = Engine::start(&copies.folder("engine"), PASSWORD);
    let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], 0)), &engine.url).unwrap();
    proxy.set("down".parse().unwrap());
    let mut original = copies.start_on("original", &proxy.url());
    capture(&original);
    copies.copy("original", "copy");
    if as_own_node {
        fs::remove_file(copies.folder("copy").join("node")).unwrap();
    }
    let copy = copies.start_on("copy", &engine.url);
    copies.until_logged("copy", HOLDS);
    capture(&copy);
    proxy.lift();
    if as_own_node {
        until_shipped(copies, "copy", &copy);
        assert!(original.stop().success());
    } else {
        assert_eq!(original.wait().code(), Some(1));
        until_shipped(copies, "copy", &copy);
    }
    until_stored(&engine, 2);
    assert!(copy.stop().success());
    assert_eq!(rows(&engine), [2 * PAIRS; 3]);
}

fn a_copy_ships_nothing_until_its_original_has_ended(database: TestDatabase) {
    run_both_with_one_backlog(&CopiedFolders::new(database), false);
}

fn a_copy_as_a_node_of_its_own_ships_after_its_original(database: TestDatabase) {
    run_both_with_one_backlog(&CopiedFolders::new(database), true);
}

fn postgres() -> TestDatabase {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(TestDatabase::postgres())
}

#[test]
fn an_older_copy_does_not_start_beside_its_original_on_sqlite() {
    an_older_copy_does_not_start_beside_its_original(TestDatabase::sqlite());
}

#[test]
fn an_older_copy_does_not_start_beside_its_original_on_postgres() {
    an_older_copy_does_not_start_beside_its_original(postgres());
}

#[test]
fn the_first_of_two_running_copies_ends_with_a_reason_on_sqlite() {
    the_first_of_two_running_copies_ends_with_a_reason(TestDatabase::sqlite());
}

#[test]
fn a_folder_that_is_brought_back_ships_all_once_on_sqlite() {
    a_folder_that_is_brought_back_ships_all_once(TestDatabase::sqlite());
}

#[test]
fn a_folder_that_is_brought_back_ships_all_once_on_postgres() {
    a_folder_that_is_brought_back_ships_all_once(postgres());
}

#[test]
fn a_copy_ships_nothing_until_its_original_has_ended_on_sqlite() {
    a_copy_ships_nothing_until_its_original_has_ended(TestDatabase::sqlite());
}

#[test]
fn a_copy_as_a_node_of_its_own_ships_after_its_original_on_sqlite() {
    a_copy_as_a_node_of_its_own_ships_after_its_original(TestDatabase::sqlite());
}

#[test]
fn a_copy_as_a_node_of_its_own_ships_after_its_original_on_postgres() {
    a_copy_as_a_node_of_its_own_ships_after_its_original(postgres());
}
