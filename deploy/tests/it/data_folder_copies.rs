//! Copied or restored data folders that share a catalog.

use crate::server::{Server, eventually, on_own_ports};
use millrace_catalog::testing::TestDatabase;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Folders of nodes with one catalog; ClickHouse is away, and events wait.
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

    fn args(&self) -> [&str; 4] {
        let (nowhere, database) = ("http://127.0.0.1:9", self.database.url());
        ["--clickhouse-url", nowhere, "--database-url", database]
    }

    /// Starts a node, and waits for its first watermark.
    fn start(&self, name: &str) -> Server {
        let folder = self.folder(name);
        let log = File::create(self.folder(&format!("{name}.log"))).unwrap();
        let mut command = on_own_ports("ingest", &folder);
        let server = Server::start_command(command.args(self.args()).stderr(log), &folder);
        eventually("its watermark", || {
            server.metric("millrace_watermark_age_seconds")
        });
        server
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder(&format!("{name}.log"))).unwrap()
    }

    /// Starts a node that must be rejected; returns its error output.
    fn refused(&self, name: &str) -> String {
        let mut command = on_own_ports("ingest", &self.folder(name));
        let Output { status, stderr, .. } = command.args(self.args()).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        said
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.folder(from), &self.folder(to));
    }
}

fn copy(from: &Path, to: &Path) {
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

fn host() -> String {
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
        "stop that one",
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
fn the_first_of_two_running_copies_ends_with_a_reason_on_postgres() {
    the_first_of_two_running_copies_ends_with_a_reason(postgres());
}
