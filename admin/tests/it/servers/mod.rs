//! Servers that the API talks to: Python programs on loopback.

pub mod dns;
pub mod smtp;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// Longest wait for a line of a server.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A running server; it ends when this is dropped.
pub struct PythonServer {
    pub port: u16,
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl PythonServer {
    /// Starts a script of this folder and reads its port.
    pub async fn start(script: &str, arguments: &[&str]) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/servers");
        let mut child = Command::new(python())
            // Some tests use settings that the libraries warn about.
            .args(["-W", "ignore"])
            .arg(folder.join(script))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = line(&mut lines).await.parse().unwrap();
        Self { port, lines, child }
    }

    /// Sends a line to the server and waits for its answer.
    pub async fn tell(&mut self, line: &str) -> Value {
        let input = self.child.stdin.as_mut().unwrap();
        input
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        self.next().await
    }

    /// Waits for the next line that the server writes.
    pub async fn next(&mut self) -> Value {
        serde_json::from_str(&line(&mut self.lines).await).unwrap()
    }
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let next = tokio::time::timeout(TEST_TIMEOUT, lines.next_line()).await;
    next.expect("the server says nothing")
        .unwrap()
        .expect("the server ended")
}

/// Python interpreter of the tests' environment, which the first call creates.
pub fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let made = std::process::Command::new(root.join("deploy/test-python.sh"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{said}");
        String::from_utf8(made.stdout).unwrap().trim().into()
    })
}
