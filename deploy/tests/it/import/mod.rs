//! `millrace import`, beside a server.

mod bombs;
mod fetched;
mod guide;
mod killed;
mod months;
mod objects;
mod odd_keys;
mod shared_devices;
mod stages;
mod stores;
mod wire;
mod words;

use crate::server::{Server, millrace, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A server with a project that may import, and a folder to do it in.
pub struct Stand {
    pub home: TempDir,
    pub server: Server,
}

impl Stand {
    pub fn start() -> Self {
        let home = TempDir::new().unwrap();
        let server = Server::start(&home.path().join("millrace-data"));
        let stand = Self { home, server };
        stand.approve(&stand.server.credential("team_id"));
        stand
    }

    fn data_dir(&self) -> PathBuf {
        self.home.path().join("millrace-data")
    }

    /// Lets a project import all that tests bring.
    pub fn approve(&self, team_id: &str) {
        let data_dir = self.data_dir();
        let args = [
            "migrations",
            "approve",
            "--team-id",
            team_id,
            "--total-events",
            "100000000",
            "--events-per-minute",
            "100000000",
            "--data-dir",
            data_dir.to_str().unwrap(),
        ];
        let output = run(&args);
        assert!(output.status.success(), "{output:?}");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// `millrace import` in the folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = millrace();
        command.current_dir(&self.home).arg("import").args(args);
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What a stage says as JSON, and its exit code.
    pub fn result(&self, args: &[&str]) -> (Value, Option<i32>) {
        let output = self.output(&[args, &["--json"]].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let mut results = text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            line.get("result").cloned()
        });
        let result = results.next_back().unwrap_or_else(|| panic!("{output:?}"));
        (result, output.status.code())
    }

    /// How many events there are, each once.
    pub fn wait_for_events(&self, count: u64) {
        let sql =
            "SELECT count(), uniqExact(uuid) FROM millrace.events FINAL WHERE historical_migration";
        self.server.wait_for(sql, &format!("{count}\t{count}"));
    }
}

/// Writes events of some months, of which each has its number.
pub fn write_events(path: &Path, count: u64) {
    let line = |number: u64| {
        let (month, day) = (number * 3 / count + 1, number % 28 + 1);
        format!(
            "{{\"event\":\"{}\",\"distinct_id\":\"user {}\",\"timestamp\":\"2024-{month:02}-{day:02}T10:{:02}:{:02}.{:03}Z\",\
             \"properties\":{{\"number\":{number},\"pad\":\"{}\"}}}}\n",
            ["$pageview", "Sign Up", "click"][number as usize % 3],
            number % 1_000,
            number / 60 % 60,
            number % 60,
            number % 1_000,
            "x".repeat(100),
        )
    };
    let text: String = (0..count).map(line).collect();
    std::fs::write(path, text).unwrap();
}
