//! Which windows of a range have rows.

use super::{Part, Reading, Statement, options, read_failure};
use crate::error::ExportError;
use crate::query::Source;
use crate::window::WindowBy;
use millrace_catalog::{ExportInterval, UtcTime};
use uuid::Uuid;

/// Added to window numbers, so that none is below 0, where division rounds the other way: some
/// centuries of five minutes.
const NUMBERS_BEFORE: i64 = 100_000_000;

impl Reading<'_> {
    /// How many windows of the range have rows.
    ///
    /// # Errors
    /// ClickHouse is away.
    pub async fn count_windows(&self, interval: ExportInterval) -> Result<u64, ExportError> {
        let sql = format!(
            "SELECT uniqExact(number) FROM ({})",
            self.numbers(interval)?
        );
        let options = self.options(&sql);
        let asked = self.clickhouse.read_number(&sql, &options);
        asked.await.map_err(|error| read_failure(&error, false))
    }

    /// The first windows of the range that have rows, in order, so many at the most: each its
    /// start and its end.
    ///
    /// # Errors
    /// ClickHouse is away.
    pub async fn first_windows(
        &self,
        interval: ExportInterval,
        count_max: u64,
    ) -> Result<Vec<(UtcTime, UtcTime)>, ExportError> {
        let numbers = self.numbers(interval)?;
        let sql = format!(
            "SELECT DISTINCT number FROM ({numbers}) ORDER BY number LIMIT {count_max} FORMAT TSVRaw"
        );
        let failed = |error| read_failure(&error, false);
        let read = self.clickhouse.read(&sql, &self.options(&sql));
        let mut stream = read.map_err(failed)?;
        let mut answer = Vec::new();
        while let Some(piece) = stream.next().await.map_err(failed)? {
            answer.extend_from_slice(&piece);
        }
        let answer = String::from_utf8_lossy(&answer);
        let numbers = answer.lines().filter_map(|line| line.parse::<i64>().ok());
        let (origin, micros, range) = (origin(interval), interval.micros(), &self.scope.window);
        let window = |number: i64| {
            let start = UtcTime(origin + (number - NUMBERS_BEFORE) * micros);
            let end = start.plus_micros(micros);
            let start = range.start.map_or(start, |first| first.max(start));
            (start, end.min(range.end))
        };
        Ok(numbers.map(window).collect())
    }

    /// The number of each row's window, as a SELECT.
    fn numbers(&self, interval: ExportInterval) -> Result<String, ExportError> {
        let column = match (self.source(), self.scope.window.by) {
            (Source::Events, WindowBy::Arrival) => "toUnixTimestamp64Micro(created_at)",
            (Source::Events, WindowBy::Timestamp { .. }) => "toUnixTimestamp64Micro(timestamp)",
            (_, WindowBy::Arrival) => "toInt64(version)",
            (_, WindowBy::Timestamp { .. }) => "toUnixTimestamp64Micro(created_at)",
        };
        let (origin, micros) = (origin(interval), interval.micros());
        let shift = NUMBERS_BEFORE * micros - origin;
        let rows = self.rows(Part::WHOLE)?;
        Ok(format!(
            "SELECT intDiv({column} + {shift}, {micros}) AS number \
             FROM ({rows})"
        ))
    }

    fn options(&self, sql: &str) -> millrace_clickhouse::ReadOptions {
        let statement = Statement {
            sql: sql.to_owned(),
            settings: Vec::new(),
            is_of_customer: false,
        };
        options(&statement, format!("windows-{}", Uuid::new_v4()))
    }
}

/// The start of window 0.
fn origin(interval: ExportInterval) -> i64 {
    interval.window_start(UtcTime(0)).0
}
