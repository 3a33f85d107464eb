//! Course of a run as a table for spreadsheets and scripts: a row per second.

use crate::series::{Point, Series};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// Row of the table; its fields are the names of the columns.
#[derive(Clone, Copy, Debug, Serialize)]
struct Row {
    at_seconds: f64,
    seconds: f64,
    acknowledged_requests: u64,
    acknowledged_events: u64,
    events_per_second: f64,
    failed_requests: u64,
    p50_ms: Option<f64>,
    p90_ms: Option<f64>,
    p99_ms: Option<f64>,
    p999_ms: Option<f64>,
    max_ms: Option<f64>,
}

impl Row {
    fn of(point: &Point) -> Self {
        let millis = |micros: f64| micros / 1000.0;
        let latency = point.latency;
        Self {
            at_seconds: point.at_seconds,
            seconds: point.seconds,
            acknowledged_requests: point.acknowledged_requests,
            acknowledged_events: point.acknowledged_events,
            events_per_second: point.events_per_second(),
            failed_requests: point.failed_requests,
            p50_ms: latency.map(|l| millis(l.p50_us)),
            p90_ms: latency.map(|l| millis(l.p90_us)),
            p99_ms: latency.map(|l| millis(l.p99_us)),
            p999_ms: latency.map(|l| millis(l.p999_us)),
            max_ms: latency.map(|l| millis(l.max_us)),
        }
    }
}

/// Writes a series to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, series: &Series) -> Result<()> {
    let table = table(series)?;
    std::fs::write(path, table).with_context(|| format!("cannot write {}", path.display()))
}

fn table(series: &Series) -> Result<Vec<u8>> {
    let mut table = Vec::new();
    let mut writer = csv::Writer::from_writer(&mut table);
    for point in &series.points {
        writer.serialize(Row::of(point)).context("CSV")?;
    }
    writer.flush().context("CSV")?;
    drop(writer);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::PointLatency;

    #[test]
    fn a_point_is_a_row_and_a_missing_latency_is_empty() {
        let point = |at_seconds, latency| Point {
            at_seconds,
            seconds: 0.5,
            acknowledged_requests: 3,
            acknowledged_events: 30,
            failed_requests: 1,
            latency,
        };
        let latency = PointLatency {
            p50_us: 1500.0,
            p90_us: 2000.0,
            p99_us: 2500.0,
            p999_us: 3000.0,
            max_us: 4000.0,
        };
        let series = Series {
            interval_seconds: 1,
            points: vec![point(-1.0, Some(latency)), point(0.0, None)],
        };
        let text = String::from_utf8(table(&series).unwrap()).unwrap();
        let expected = "at_seconds,seconds,acknowledged_requests,acknowledged_events,\
            events_per_second,failed_requests,p50_ms,p90_ms,p99_ms,p999_ms,max_ms\n\
            -1.0,0.5,3,30,60.0,1,1.5,2.0,2.5,3.0,4.0\n\
            0.0,0.5,3,30,60.0,1,,,,,\n";
        assert_eq!(text, expected);
    }
}
