//! Parent side: starts a process for each source, waits for it and kills it.

use super::limiter::ProcessLimiter;
use super::{ARGUMENT, EXIT_OWN_FAULT};
use async_trait::async_trait;
use millrace_organizations::{PluginCapabilities, SourceParseError, SourceParser};
use rustix::process::Signal;
use serde::Deserialize;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use uuid::Uuid;

/// Path of this program, also where another version has replaced its file.
const PROGRAM: &str = "/proc/self/exe";
/// Most bytes that are read of a result: more than the catalog accepts, so that the catalog rejects
/// it.
const ANSWER_BYTES_MAX: u64 = 2 << 20;
/// Longest wait for a permit.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest lifetime of a process. Its own limit is CPU time; this one is for a machine that gives
/// it none.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(15);

/// Parser that reads each source in a process of its own.
#[derive(Debug, Default)]
pub struct SourceProcesses {
    limiter: ProcessLimiter,
}

#[async_trait]
impl SourceParser for SourceProcesses {
    async fn parse(
        &self,
        organization_id: Uuid,
        source: String,
    ) -> Result<PluginCapabilities, SourceParseError> {
        let permit = timeout(PERMIT_TIMEOUT, self.limiter.acquire(organization_id)).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(unavailable("too many are waiting"));
        };
        let child = start().map_err(|error| unavailable(&error.to_string()))?;
        parse_in(child, &source).await
    }
}

fn unavailable(reason: &str) -> SourceParseError {
    SourceParseError::Unavailable(reason.to_owned())
}

/// Has a process parse a source, and kills it if it takes too long.
async fn parse_in(mut child: Child, source: &str) -> Result<PluginCapabilities, SourceParseError> {
    let Ok(ended) = timeout(PROCESS_TIMEOUT, exchange(&mut child, source)).await else {
        // Waited for, so that the permit is held until the process is gone.
        let _ = child.kill().await;
        return Err(unavailable("the process that reads them took too long"));
    };
    let (status, answer) = ended.map_err(|error| unavailable(&error.to_string()))?;
    interpret(status, &answer)
}

/// Starts a process without settings, secrets or files of this one.
fn start() -> io::Result<Child> {
    Command::new(PROGRAM)
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Ends with a request that was cancelled.
        .kill_on_drop(true)
        .spawn()
}

/// Writes the source to the process, and reads its result and its exit status.
async fn exchange(child: &mut Child, source: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // The status of a process that has ended already tells why.
        let _ = stdin.write_all(source.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout
            .take(ANSWER_BYTES_MAX)
            .read_to_end(&mut answer)
            .await?;
    }
    Ok((child.wait().await?, answer))
}

/// Maps exit status and output to a result.
fn interpret(status: ExitStatus, answer: &[u8]) -> Result<PluginCapabilities, SourceParseError> {
    let limits = [Signal::ABORT, Signal::BUS, Signal::SEGV, Signal::XCPU];
    let by_limit = |signal| limits.iter().any(|limit| limit.as_raw() == signal);
    if status.signal().is_some_and(by_limit) {
        tracing::info!(%status, "a plugin's source cannot be read within its limits");
        return Err(SourceParseError::TooComplex);
    }
    if !status.success() {
        let own = status.code() == Some(i32::from(EXIT_OWN_FAULT));
        tracing::warn!(%status, own, "the process that reads sources of plugins failed");
        let reason = format!("the process that reads them ended with {status}");
        return Err(SourceParseError::Unavailable(reason));
    }
    // A result that was cut off is longer than any that is accepted.
    let found = serde_json::from_slice(answer).map_err(|_| SourceParseError::TooComplex)?;
    let found: Result<PluginCapabilities, SyntaxErrorPosition> = found;
    found.map_err(|SyntaxErrorPosition { line, column }| SourceParseError::Mistake { line, column })
}

/// Place of a syntax error, as the process reports it.
#[derive(Debug, Deserialize)]
struct SyntaxErrorPosition {
    line: usize,
    column: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_permit_times_out_as_unavailable() {
        let processes = SourceProcesses::default();
        let organization = Uuid::from_u128(1);
        let _permit = processes.limiter.acquire(organization).await.unwrap();
        let begun = Instant::now();
        let read = processes.parse(organization, "x".to_owned()).await;
        let is_unavailable = matches!(read, Err(SourceParseError::Unavailable(_)));
        assert!(is_unavailable, "{read:?}");
        assert_eq!(begun.elapsed(), PERMIT_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_does_not_end_is_killed_after_fifteen_seconds() {
        let mut endless = Command::new("sleep");
        endless.arg("infinity").stdin(Stdio::piped());
        let child = endless.stdout(Stdio::piped()).kill_on_drop(true).spawn();
        let child = child.unwrap();
        let pid = child.id().unwrap();
        let begun = Instant::now();
        let read = parse_in(child, "x").await;
        let is_unavailable = matches!(read, Err(SourceParseError::Unavailable(_)));
        assert!(is_unavailable, "{read:?}");
        assert_eq!(begun.elapsed().as_secs(), 15);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn only_an_end_by_a_limit_blames_the_source() {
        let capabilities = br#"{"Ok":{"methods":["onEvent"],"jobs":[],"scheduled_tasks":[]}}"#;
        let mistake = br#"{"Err":{"line":3,"column":9}}"#;
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let table: [(ExitStatus, &[u8], &str); 9] = [
            (exit(0), capabilities, "read"),
            (exit(0), mistake, "mistake"),
            (exit(0), b"{\"Ok\":{\"methods\":[\"on", "too complex"),
            (exit(1), capabilities, "unavailable"),
            (exit(i32::from(EXIT_OWN_FAULT)), b"", "unavailable"),
            (
                ExitStatus::from_raw(Signal::SEGV.as_raw()),
                b"",
                "too complex",
            ),
            (
                ExitStatus::from_raw(Signal::ABORT.as_raw()),
                b"",
                "too complex",
            ),
            (
                ExitStatus::from_raw(Signal::XCPU.as_raw()),
                b"",
                "too complex",
            ),
            // The system had no memory left; a retry may succeed.
            (
                ExitStatus::from_raw(Signal::KILL.as_raw()),
                b"",
                "unavailable",
            ),
        ];
        for (status, answer, expected) in table {
            let found = match interpret(status, answer) {
                Ok(_) => "read",
                Err(SourceParseError::TooComplex) => "too complex",
                Err(SourceParseError::Mistake { line: 3, column: 9 }) => "mistake",
                Err(SourceParseError::Mistake { .. }) => "another mistake",
                Err(SourceParseError::Unavailable(_)) => "unavailable",
            };
            assert_eq!(found, expected, "{status}");
        }
    }
}
