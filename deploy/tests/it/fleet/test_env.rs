//! Fixture: a catalog in PostgreSQL that can be away, and processes that share it.

use crate::server::{Server, error_line, eventually, on_own_ports};
use millrace_catalog::testing::TestDatabase;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Address at which ClickHouse is down, so that events wait.
pub const NOWHERE: &str = "http://127.0.0.1:9";

/// Folders of processes with one catalog. The catalog is reached by a link to the folder of the
/// server's socket: without the link it is away from whoever connects anew.
pub struct Fleet {
    dir: TempDir,
    database: TestDatabase,
    runtime: Runtime,
}

impl Fleet {
    pub fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let database = runtime.block_on(TestDatabase::postgres());
        let fleet = Self {
            dir: TempDir::new().unwrap(),
            database,
            runtime,
        };
        fleet.bring_catalog_back();
        fleet
    }

    pub fn folder(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn link(&self) -> PathBuf {
        self.folder("pg")
    }

    /// Folder of the server's socket, which the database's URL has as its host.
    fn socket_folder(&self) -> PathBuf {
        let (_, host) = self.database.url().split_once('@').unwrap();
        let (host, _) = host.split_once('/').unwrap();
        PathBuf::from(host.replace("%2F", "/"))
    }

    /// URL of the catalog by way of the link.
    pub fn url(&self) -> String {
        let host = |folder: PathBuf| folder.to_str().unwrap().replace('/', "%2F");
        let url = self.database.url();
        url.replace(&host(self.socket_folder()), &host(self.link()))
    }

    pub fn take_catalog_away(&self) {
        fs::remove_file(self.link()).unwrap();
    }

    pub fn bring_catalog_back(&self) {
        std::os::unix::fs::symlink(self.socket_folder(), self.link()).unwrap();
    }

    /// Runs a statement in the catalog.
    pub fn execute(&self, sql: &str) {
        let done = self.runtime.block_on(self.database.execute(sql));
        done.unwrap();
    }

    /// First column of a query's result.
    pub fn ask(&self, sql: &str) -> Vec<String> {
        let asked = self.runtime.block_on(self.database.first_column(sql));
        asked.unwrap()
    }

    /// Command for a mode, with these arguments, that logs to `NAME.log`.
    pub fn command(&self, mode: &str, name: &str, args: &[&str]) -> Command {
        let log = File::create(self.folder(&format!("{name}.log"))).unwrap();
        let mut command = on_own_ports(mode, &self.folder(name));
        command.args(["--database-url", &self.url()]);
        // A stop does not wait for events that cannot be shipped.
        command
            .args(["--grace-seconds", "1"])
            .args(args)
            .stderr(log);
        command
    }

    pub fn start(&self, mode: &str, name: &str, args: &[&str]) -> Server {
        let mut command = self.command(mode, name, args);
        Server::start_command(&mut command, &self.folder(name))
    }

    /// Starts a process that must be refused; returns its exit code and its error.
    pub fn refused(&self, mode: &str, name: &str, args: &[&str]) -> (i32, String) {
        let mut server =
            Server::start_to_end(&mut self.command(mode, name, args), &self.folder(name));
        let code = server.wait().code().unwrap();
        (code, error_line(&self.log(name)).to_owned())
    }

    /// Waits until so many nodes have reported.
    pub fn until_reported(&self, nodes: usize) {
        eventually("reports", || {
            let reports = self.ask("SELECT name FROM node_reports");
            (reports.len() == nodes).then_some(())
        });
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.folder(&format!("{name}.log"))).unwrap()
    }

    pub fn until_logged(&self, name: &str, words: &str) {
        eventually(words, || self.log(name).contains(words).then_some(()));
    }
}
