//! Tests that memory does not grow with the window.

use super::fixture::Fixture;
use super::gateway::GatewayFault;
use crate::rows::{lines, row, run};
use bytes::Bytes;
use millrace_catalog::DestinationType;
use millrace_exports::destination::Destination;
use serde_json::{Value, json};
use std::process::Command;

const ROWS: u64 = 200_000;
const BATCH: u64 = 500;
/// Growth of the process at most: far less than the size of the rows.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Set for the process that measures.
const ALONE: &str = "MILLRACE_TEST_ALONE";
/// Text before the figure in a test's output.
const SAID: &str = "grown by bytes: ";

/// Row of an event, with half a kilobyte more in it.
fn long_row(number: u64) -> Value {
    let mut row = row(number);
    row["properties"]["more"] = json!("x".repeat(512));
    row
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Fills a table; returns the number of bytes by which the process grew.
async fn fill(destination: &dyn Destination) -> u64 {
    let mut delivery = destination.begin(&run(0), 1).await.unwrap();
    let (before, mut most, mut bytes) = (resident_bytes(), 0, 0);
    for first in (0..ROWS).step_by(BATCH as usize) {
        let lines = Bytes::from(lines((first..first + BATCH).map(long_row)));
        bytes += lines.len() as u64;
        delivery.write(lines).await.unwrap();
        most = most.max(resident_bytes());
    }
    delivery.end_part(ROWS).await.unwrap();
    let outcome = delivery.publish().await.unwrap();
    assert_eq!(outcome.rows, Some(ROWS));
    assert!(bytes > 2 * GROWTH_BYTES_MAX, "{bytes} bytes say nothing");
    most.saturating_sub(before)
}

/// Fills a table in another process, which runs this test again, so that no other test's memory is
/// measured.
async fn two_hundred_thousand_rows_take_bounded_memory(test: &str, kind: DestinationType) {
    if std::env::var_os(ALONE).is_some() {
        let fixture = Fixture::new().await;
        let destination = match kind {
            DestinationType::Redshift => fixture.redshift().await,
            _ => fixture.postgres(),
        };
        println!("{SAID}{}", fill(&destination).await);
        assert_eq!(fixture.text("SELECT count(*) FROM events").await, "200000");
        return;
    }
    let this = format!("{}::{test}", module_path!());
    let (_, this) = this.split_once("::").unwrap();
    let run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", this, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
    let mut lines = said.lines();
    let grown = lines.find_map(|line| line.split_once(SAID)?.1.parse::<u64>().ok());
    let grown = grown.unwrap_or_else(|| panic!("{said}"));
    assert!(grown < GROWTH_BYTES_MAX, "{grown}");
}

#[tokio::test]
async fn two_hundred_thousand_rows_take_bounded_memory_in_postgresql() {
    let test = "two_hundred_thousand_rows_take_bounded_memory_in_postgresql";
    two_hundred_thousand_rows_take_bounded_memory(test, DestinationType::Postgres).await;
}

#[tokio::test]
async fn two_hundred_thousand_rows_take_bounded_memory_in_redshift() {
    let test = "two_hundred_thousand_rows_take_bounded_memory_in_redshift";
    two_hundred_thousand_rows_take_bounded_memory(test, DestinationType::Redshift).await;
}

#[tokio::test]
async fn a_server_that_takes_no_rows_blocks_the_writer_until_the_limit() {
    let mut fixture = Fixture::new().await;
    fixture.limits.stall = std::time::Duration::from_millis(100);
    let postgres = fixture.postgres();
    let mut delivery = postgres.begin(&run(0), 1).await.unwrap();
    fixture.gateway.inject(GatewayFault::StallBefore("user 7"));
    let mut taken = 0;
    let refused = loop {
        let lines = Bytes::from(lines((0..BATCH).map(row)));
        taken += lines.len();
        match delivery.write(lines).await {
            Ok(()) => assert!(taken < 256 << 20, "it takes all"),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, millrace_exports::ExportErrorKind::Retryable);
}
