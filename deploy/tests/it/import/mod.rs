//! `millrace import`, with a running server.

mod api_fetch;
mod bombs;
mod faulty_proxy;
mod guide;
mod messages;
mod months;
mod object_fetch;
mod object_stores;
mod odd_keys;
mod resume;
mod shared_devices;
mod stages;

use crate::server::{Server, millrace, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Server with a project that may import, and a working folder.
pub struct TestEnv {
    pub home: TempDir,
    pub server: Server,
}

impl TestEnv {
    pub fn start() -> Self {
        let home = TempDir::new().unwrap();
        let server = Server::start(&home.path().join("millrace-data"));
        // A stage that asks ClickHouse fails while its tables are being made.
        server.wait_for_tables();
        let env = Self { home, server };
        env.approve(&env.server.credential("team_id"));
        env
    }

    fn data_dir(&self) -> PathBuf {
        self.home.path().join("millrace-data")
    }

    /// Approves all imports of a project.
    pub fn approve(&self, project_id: &str) {
        let data_dir = self.data_dir();
        let args = [
            "migrations",
            "approve",
            "--project-id",
            project_id,
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

    /// Command `millrace import` in the working folder.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = millrace();
        command.current_dir(&self.home).arg("import").args(args);
        command
    }

    pub fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a stage; returns its JSON result and exit code.
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

    /// Waits until `count` events are stored, each of them once.
    pub fn wait_for_events(&self, count: u64) {
        let sql =
            "SELECT count(), uniqExact(uuid) FROM millrace.events FINAL WHERE historical_migration";
        self.server.wait_for(sql, &format!("{count}\t{count}"));
    }
}

/// Writes numbered events of three months.
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
