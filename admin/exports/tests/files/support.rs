//! Runs, and their deliveries.

use bytes::Bytes;
use millrace_catalog::{ExportModel, ProjectId, UtcTime};
use millrace_exports::ExportError;
use millrace_exports::destination::{Delivered, Delivery, Destination};
use millrace_exports::window::{RunScope, Window, WindowBy};
use uuid::Uuid;

/// Start of the first window: 2026-11-20T14:00:00Z, in microseconds.
const START: i64 = 1_795_183_200_000_000;
const HOUR: i64 = 3_600_000_000;
/// Stem of the names of the first window's files.
pub const STEM: &str = "2026-11-20T14:00:00Z-2026-11-20T15:00:00Z";

/// Run of a window, a number of hours after the first.
pub fn run(hours: i64) -> RunScope {
    RunScope {
        run_id: Uuid::new_v4(),
        export_id: Uuid::from_u128(7),
        project_id: ProjectId(1),
        model: ExportModel::Events,
        window: Window {
            start: Some(UtcTime(START + hours * HOUR)),
            end: UtcTime(START + (hours + 1) * HOUR),
            by: WindowBy::Arrival,
        },
    }
}

/// Creates lines that all differ and are hard to compress.
pub fn lines(seed: &str, count: usize) -> String {
    let line = |n: usize| {
        let noise = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{{\"seed\":\"{seed}\",\"n\":{n},\"noise\":\"{noise:x}\",\"é\":\"\\u0000\"}}\n")
    };
    (0..count).map(line).collect()
}

/// Delivers files of lines, in pieces of odd sizes, and publishes.
pub async fn deliver(
    destination: &dyn Destination,
    run: &RunScope,
    files: &[&str],
) -> Result<Delivered, ExportError> {
    written(destination, run, files).await?.publish().await
}

/// Delivers files of lines without publishing them.
pub async fn written(
    destination: &dyn Destination,
    run: &RunScope,
    files: &[&str],
) -> Result<Box<dyn Delivery>, ExportError> {
    let mut delivery = destination
        .begin(run, files.len().try_into().unwrap())
        .await?;
    for file in files {
        for piece in file.as_bytes().chunks(77_777) {
            delivery.write(Bytes::copy_from_slice(piece)).await?;
        }
        delivery.end_part(file.lines().count() as u64).await?;
    }
    Ok(delivery)
}

/// Texts between these tags.
pub fn tagged<'a>(xml: &'a str, tag: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let after = xml.split(open.as_str()).skip(1);
    after
        .map(|rest| rest.split(close.as_str()).next().unwrap())
        .collect()
}
