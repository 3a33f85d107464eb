//! Which windows of a range have rows.

use super::{Part, Reading, Statement, options, read_failure};
use crate::error::ExportError;
use crate::query::Source;
use crate::window::WindowBy;
use millrace_catalog::{ExportInterval, UtcTime};
use uuid::Uuid;

/// How long before 1970 windows are counted from, at least, so that no number is below 0, where division
/// rounds the other way: four centuries, while ClickHouse's oldest time is of 1900.
const BEFORE_1970_MICROS: i64 = 400 * 366 * 24 * 3_600 * 1_000_000;

// The latest time that ClickHouse has, of 2299, is less than that behind 1970, so that no sum wraps: this
// one would not compile.
const _: i64 = 2 * BEFORE_1970_MICROS + ExportInterval::Week.micros();

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
        let (first, micros, range) = (first_start(interval), interval.micros(), &self.scope.window);
        let window = |number: i64| {
            let start = UtcTime(first + number * micros);
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
        let (before, micros) = (-first_start(interval), interval.micros());
        let rows = self.rows(Part::WHOLE)?;
        Ok(format!(
            "SELECT intDiv({column} + {before}, {micros}) AS number \
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

/// The start of window 0, before 1970.
const fn first_start(interval: ExportInterval) -> i64 {
    interval.window_start(UtcTime(-BEFORE_1970_MICROS)).0
}
