//! The server's side: a process for each source.

use super::turns::Turns;
use super::{ARGUMENT, EXIT_OWN_FAULT};
use async_trait::async_trait;
use millrace_catalog::{PluginCapabilities, SourceParseError, SourceParser};
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

/// This program, also where another version has taken its file's name.
const PROGRAM: &str = "/proc/self/exe";
/// The most of an answer, in bytes: more than the catalog keeps, so that it says so.
const ANSWER_BYTES_MAX: u64 = 2 << 20;
/// How long somebody waits for a turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a process may be there. Its own limit is the time of a core that it takes; this one is
/// for a machine that gives it none.
const LIFE_MAX: Duration = Duration::from_secs(15);

/// Reads each source in a process.
#[derive(Debug, Default)]
pub struct SourceProcesses {
    turns: Turns,
}

#[async_trait]
impl SourceParser for SourceProcesses {
    async fn parse(
        &self,
        organization_id: Uuid,
        source: String,
    ) -> Result<PluginCapabilities, SourceParseError> {
        let unavailable = |reason: &str| SourceParseError::Unavailable(reason.to_owned());
        let turn = timeout(TURN_TIMEOUT, self.turns.wait(organization_id)).await;
        let Ok(Ok(_turn)) = turn else {
            return Err(unavailable("too many are waiting"));
        };
        let mut child = start().map_err(|error| unavailable(&error.to_string()))?;
        let Ok(ended) = timeout(LIFE_MAX, talk(&mut child, &source)).await else {
            // It is waited for, so that no turn begins before it is gone.
            let _ = child.kill().await;
            return Err(unavailable("the process that reads them had no time to"));
        };
        let (status, answer) = ended.map_err(|error| unavailable(&error.to_string()))?;
        judge(status, &answer)
    }
}

/// Starts a process that knows nothing of this one: no settings, no secrets, no files.
fn start() -> io::Result<Child> {
    Command::new(PROGRAM)
        .arg(ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Where nobody waits for the answer any more.
        .kill_on_drop(true)
        .spawn()
}

/// Gives it the source and waits for its answer and its end.
async fn talk(child: &mut Child, source: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    if let Some(mut stdin) = child.stdin.take() {
        // One that has ended already says why by its status.
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

/// Says what an end means.
fn judge(status: ExitStatus, answer: &[u8]) -> Result<PluginCapabilities, SourceParseError> {
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
    // An answer that was cut off is longer than any that is kept.
    let found = serde_json::from_slice(answer).map_err(|_| SourceParseError::TooComplex)?;
    let found: Result<PluginCapabilities, Mistake> = found;
    found.map_err(|Mistake { line, column }| SourceParseError::Mistake { line, column })
}

/// The place of a mistake, as the process tells it.
#[derive(Debug, Deserialize)]
struct Mistake {
    line: usize,
    column: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_for_a_turn_is_told_to_come_again() {
        let processes = SourceProcesses::default();
        let organization = Uuid::from_u128(1);
        let _turn = processes.turns.wait(organization).await.unwrap();
        let begun = Instant::now();
        let read = processes.parse(organization, "x".to_owned()).await;
        let is_unavailable = matches!(read, Err(SourceParseError::Unavailable(_)));
        assert!(is_unavailable, "{read:?}");
        assert_eq!(begun.elapsed(), TURN_TIMEOUT);
    }

    #[test]
    fn an_end_by_a_limit_is_the_source_s_fault_and_no_other() {
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
            // The system had no memory left: another time it may have.
            (
                ExitStatus::from_raw(Signal::KILL.as_raw()),
                b"",
                "unavailable",
            ),
        ];
        for (status, answer, expected) in table {
            let found = match judge(status, answer) {
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
