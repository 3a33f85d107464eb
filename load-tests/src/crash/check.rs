//! Conditions that must hold once everything runs again.

use super::subject::Subject;
use crate::clickhouse::ClickHouse;
use crate::digits::counted;
use crate::ledger::AckLedger;
use crate::verify::{VerifyReport, verify};
use anyhow::{Context, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

/// Longest wait for the next row. The engine's supervisor alone may wait ten seconds.
const VERIFY_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest time until shipped segments are deleted.
const EMPTY_MAX: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Segments that stay when everything is shipped: the one being written, and one just completed.
const SEGMENTS_MAX: usize = 2;
/// Reason for which the generator's rejected events are rejected.
const REJECTED_FOR: &str = "missing_distinct_id";
/// Words of a command that found no tables of its version yet.
const NO_TABLES: &str = "ClickHouse lacks tables";
/// Log message of the server when a token was used up by rows that are not stored.
const RESENT: &str = "rows in doubt are not there and are sent again";

/// Result of checking rejected events.
#[derive(Debug)]
pub struct Rejected {
    /// Number of rejected events.
    pub events: u64,
    /// Difference between the list and the table, if there is one.
    pub wrong: Option<String>,
}

/// Compares the ledger with ClickHouse, once everything has been shipped.
///
/// # Errors
/// ClickHouse does not answer.
pub async fn compare(ledger: &AckLedger, clickhouse: &ClickHouse) -> Result<VerifyReport> {
    verify(ledger, clickhouse, VERIFY_TIMEOUT).await
}

/// Promise of a node's watermark: the number of rows below it, which never grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The watermark, in the format of `millrace nodes list`.
    watermark: String,
    /// Number of events below the watermark when it was read.
    rows: u64,
}

/// Reads the promise of the only node; `None` if there is no watermark yet, or ClickHouse does not
/// respond.
///
/// # Errors
/// The command fails.
pub async fn promise(subject: &Subject<'_>, clickhouse: &ClickHouse) -> Result<Option<Promise>> {
    let output = subject.operate(&["nodes", "list"])?;
    let Some(watermark) = watermark_of(&String::from_utf8_lossy(&output.stdout)) else {
        return Ok(None);
    };
    // The watermark is read first and rows are counted then: rows that arrive in between only
    // weaken the promise.
    let rows = rows_below(clickhouse, &watermark).await.ok();
    Ok(rows.map(|rows| Promise { watermark, rows }))
}

/// Describes a broken promise, once everything has been shipped.
///
/// # Errors
/// ClickHouse does not answer.
pub async fn broken(promise: &Promise, clickhouse: &ClickHouse) -> Result<Option<String>> {
    let Promise { watermark, rows } = promise;
    let now = rows_below(clickhouse, watermark).await?;
    Ok((now != *rows).then(|| {
        let rows = counted(*rows, "row");
        format!("below the watermark {watermark}: {rows} when it was published, now {now}")
    }))
}

async fn rows_below(clickhouse: &ClickHouse, watermark: &str) -> Result<u64> {
    let below = format!("parseDateTime64BestEffort('{watermark}', 6, 'UTC')");
    let sql = format!(
        "SELECT count() FROM millrace.events WHERE created_at < {below} FORMAT TabSeparated"
    );
    clickhouse.number(&sql).await
}

/// Watermark in the list of nodes: the fourth column of its only row.
fn watermark_of(list: &str) -> Option<String> {
    let mut rows = list
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("NODE "));
    let watermark = rows.nth(1)?.split_whitespace().nth(3)?;
    // The first value is "unknown".
    watermark.ends_with('Z').then(|| watermark.to_owned())
}

/// Compares the operator's list of rejected events with their table.
///
/// # Errors
/// ClickHouse does not answer, or the command fails.
pub async fn rejected(subject: &Subject<'_>, clickhouse: &ClickHouse) -> Result<Rejected> {
    let sql = "SELECT count() FROM millrace.rejected_events FORMAT TabSeparated";
    let events = clickhouse.number(sql).await?;
    let output = listed(subject)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.contains(REJECTED_FOR));
    let count = lines.count() as u64;
    let wrong = (count != events).then(|| {
        let listed = counted(count, "event");
        format!("`rejected list` shows {listed}, the table has {events}")
    });
    Ok(Rejected { events, wrong })
}

/// Runs `rejected list`, again while a server that has just started makes the tables.
fn listed(subject: &Subject<'_>) -> Result<Output> {
    let deadline = Instant::now() + VERIFY_TIMEOUT;
    loop {
        let output = subject.operate(&["rejected", "list", "--limit", "4000000000"]);
        match output {
            Err(error) if Instant::now() < deadline && format!("{error:#}").contains(NO_TABLES) => {
                std::thread::sleep(LOOK_AGAIN);
            }
            output => return output,
        }
    }
}

/// Checks that the created projects still exist.
///
/// # Errors
/// The command fails.
pub fn projects(subject: &Subject<'_>, made: &[String]) -> Result<Option<String>> {
    if made.is_empty() {
        return Ok(None);
    }
    let output = subject.operate(&["keys", "list"])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let is_listed = |name: &String| text.lines().any(|line| line.contains(&format!("{name} ")));
    let lost: Vec<_> = made.iter().filter(|name| !is_listed(name)).collect();
    Ok((!lost.is_empty()).then(|| format!("projects {lost:?} are lost from\n{text}")))
}

/// Leftovers that should not exist: shipped segments, dead letters, damaged files.
///
/// # Errors
/// A folder cannot be read.
pub fn leftovers(ingest_dir: &Path) -> Result<Vec<String>> {
    let mut wrongs = Vec::new();
    for lane in ["live", "historical"] {
        let log = ingest_dir.join("log").join(lane);
        let deadline = Instant::now() + EMPTY_MAX;
        loop {
            let names = names_in(&log)?;
            let segments = names.iter().filter(|name| name.ends_with(".log")).count();
            if segments <= SEGMENTS_MAX {
                break;
            }
            if Instant::now() >= deadline {
                wrongs.push(format!(
                    "{segments} {lane} segments stay, though all is shipped"
                ));
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
        for dir in [
            log.join("quarantine"),
            ingest_dir.join("dead-letters").join(lane),
        ] {
            let names = names_in(&dir)?;
            if !names.is_empty() {
                wrongs.push(format!("in {}: {}", dir.display(), names.join(", ")));
            }
        }
    }
    Ok(wrongs)
}

/// Number of blocks that were sent again although their token was used up.
#[must_use]
pub fn resent_blocks(said: &str) -> u64 {
    said.lines().filter(|line| line.contains(RESENT)).count() as u64
}

/// Names of the entries of a folder; empty if the folder does not exist.
fn names_in(dir: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", dir.display())),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_is_found_in_the_list_of_nodes() {
        let list = |watermark: &str| {
            format!(
                " NODE  HOST  STATE    WATERMARK  BEHIND  HEARD OF\n \
                 n1    h     running  {watermark}  1 s  2026-11-22T15:00:01Z\n\
                 Exports may go up to 2026-11-22T15:00:00Z.\n"
            )
        };
        let at = "2026-11-22T15:00:00.000001Z";
        assert_eq!(watermark_of(&list(at)).as_deref(), Some(at));
        assert_eq!(watermark_of(&list("unknown")), None);
        assert_eq!(watermark_of("No node has accepted events yet.\n"), None);
    }
}
