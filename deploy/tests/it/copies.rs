//! Data folders that were copied, or brought back, and a catalog that they share.

use crate::server::{Server, eventually, on_own_ports};
use millrace_catalog::testing::TestDatabase;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use tempfile::TempDir;

/// Folders of nodes with one catalog; ClickHouse is away, and events wait.
struct Copies {
    dir: TempDir,
    database: TestDatabase,
}

impl Copies {
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

    /// Starts a node, and waits until it has said for the first time how far it is.
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

    /// A start that is expected to be refused.
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

fn a_copy_that_is_older_does_not_start_beside_its_original(database: TestDatabase) {
    let copies = Copies::new(database);
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

fn of_two_copies_that_run_the_first_ends_and_says_why(database: TestDatabase) {
    let copies = Copies::new(database);
    drop(copies.start("original"));
    // A crash is nothing that a start waits for.
    let mut original = copies.start("original");
    copies.copy("original", "copy");
    let copy = copies.start("copy");
    assert_eq!(original.wait().code(), Some(1));
    let said = copies.log("original");
    for word in ["another copy", &host(), "only one may run"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    // Nor does it come back while the other one runs, or may.
    assert!(copies.refused("original").contains("another copy"));
    assert!(copy.stop().success());
    assert!(!copies.log("copy").contains("another copy"));
    // Brought back when the other one is gone, it goes on.
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
fn a_copy_that_is_older_does_not_start_beside_its_original_on_sqlite() {
    a_copy_that_is_older_does_not_start_beside_its_original(TestDatabase::sqlite());
}

#[test]
fn a_copy_that_is_older_does_not_start_beside_its_original_on_postgres() {
    a_copy_that_is_older_does_not_start_beside_its_original(postgres());
}

#[test]
fn of_two_copies_that_run_the_first_ends_and_says_why_on_sqlite() {
    of_two_copies_that_run_the_first_ends_and_says_why(TestDatabase::sqlite());
}

#[test]
fn of_two_copies_that_run_the_first_ends_and_says_why_on_postgres() {
    of_two_copies_that_run_the_first_ends_and_says_why(postgres());
}
