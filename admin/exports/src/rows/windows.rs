//! Windows of a range that have rows.

use super::{Statement, WindowPart, WindowQuery, WindowSearchError, options};
use crate::error::ExportError;
use crate::query::Source;
use crate::records::ExportInterval;
use crate::window::WindowBy;
use millrace_catalog::UtcTime;
use millrace_clickhouse::{ReadOptions, nonce_column};
use std::time::Duration;
use uuid::Uuid;

/// Time before 1970 from which windows are counted, so that no number is negative, where division
/// rounds the other way: four centuries, while ClickHouse's oldest time is in 1900.
const BEFORE_1970_MICROS: i64 = 400 * 366 * 24 * 3_600 * 1_000_000;

// ClickHouse's latest time, in 2299, is less than that after 1970, so no sum overflows: this one
// would not compile.
const _: i64 = 2 * BEFORE_1970_MICROS + ExportInterval::Week.micros();

impl WindowQuery<'_> {
    /// Counts the windows of the range that have rows.
    ///
    /// # Errors
    /// ClickHouse is down, or has worked on it for `work_max`, or needs too much memory.
    pub async fn count_windows(
        &self,
        interval: ExportInterval,
        work_max: Duration,
    ) -> Result<u64, WindowSearchError> {
        let sql = format!(
            "SELECT uniqExact(number) FROM ({})",
            self.numbers(interval)?
        );
        let options = search_options(&sql, work_max);
        Ok(self.clickhouse.read_number(&sql, &options).await?)
    }

    /// Finds the first windows of the range that have rows, in order, `count_max` at most: the
    /// start and the end of each.
    ///
    /// # Errors
    /// ClickHouse is down, or has worked on it for `work_max`, or needs too much memory.
    pub async fn first_windows(
        &self,
        interval: ExportInterval,
        count_max: u64,
        work_max: Duration,
    ) -> Result<Vec<(UtcTime, UtcTime)>, WindowSearchError> {
        let (numbers, nonce) = (self.numbers(interval)?, nonce_column());
        let sql = format!(
            "SELECT DISTINCT number AS {nonce} FROM ({numbers}) ORDER BY {nonce} LIMIT {count_max} \
             FORMAT TSVRawWithNames"
        );
        let options = search_options(&sql, work_max);
        let mut stream = self.clickhouse.read(&sql, &options)?;
        let mut answer = Vec::new();
        while let Some(piece) = stream.next().await? {
            answer.extend_from_slice(&piece);
        }
        let numbers = window_numbers(&answer, &nonce).ok_or_else(|| {
            ExportError::waiting("The windows cannot be read from ClickHouse now.")
        })?;
        let (first, micros, range) = (first_start(interval), interval.micros(), &self.scope.window);
        let window = |number: i64| {
            let start = UtcTime(first + number * micros);
            let end = start.plus_micros(micros);
            let start = range.start.map_or(start, |first| first.max(start));
            (start, end.min(range.end))
        };
        Ok(numbers.into_iter().map(window).collect())
    }

    /// SELECT of the number of each row's window.
    fn numbers(&self, interval: ExportInterval) -> Result<String, ExportError> {
        let column = match (self.source(), self.scope.window.by) {
            (Source::Events, WindowBy::Arrival) => "toUnixTimestamp64Micro(created_at)",
            (Source::Events, WindowBy::Timestamp { .. }) => "toUnixTimestamp64Micro(timestamp)",
            (_, WindowBy::Arrival) => "toInt64(version)",
            (_, WindowBy::Timestamp { .. }) => "toUnixTimestamp64Micro(created_at)",
        };
        let (before, micros) = (-first_start(interval), interval.micros());
        let rows = self.rows(WindowPart::WHOLE)?;
        Ok(format!(
            "SELECT intDiv({column} + {before}, {micros}) AS number \
             FROM ({rows})"
        ))
    }
}

/// Parses the numbers of windows. ClickHouse names their column first, also when there are none; a
/// gateway's page, an answer without a body, or one to another query does not.
fn window_numbers(answer: &[u8], column: &str) -> Option<Vec<i64>> {
    let mut lines = std::str::from_utf8(answer).ok()?.lines();
    let is_proven = lines.next()? == column;
    let numbers = lines.map(|line| line.parse::<i64>().ok());
    numbers.collect::<Option<Vec<i64>>>().filter(|_| is_proven)
}

/// Options of a statement that searches a range for its windows.
fn search_options(sql: &str, work_max: Duration) -> ReadOptions {
    let statement = Statement {
        sql: sql.to_owned(),
        settings: Vec::new(),
        is_of_customer: false,
    };
    let mut options = options(&statement, format!("windows-{}", Uuid::new_v4()));
    options.work_max = Some(work_max);
    options
}

/// Start of window 0, before 1970.
const fn first_start(interval: ExportInterval) -> i64 {
    interval.window_start(UtcTime(-BEFORE_1970_MICROS)).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_the_columns_name_or_with_anything_but_numbers_is_refused() {
        let table: [(&str, Option<&[i64]>); 8] = [
            ("number\n", Some(&[])),
            ("another\n", None),
            ("number\n-1\n20\n", Some(&[-1, 20])),
            ("", None),
            ("1\n2\n", None),
            ("number\n1\n<html>\n", None),
            ("number\n1\n\n", None),
            ("<html>We are back soon</html>", None),
        ];
        for (answer, numbers) in table {
            let read = window_numbers(answer.as_bytes(), "number");
            assert_eq!(read.as_deref(), numbers, "{answer}");
        }
    }
}
