//! Work budget of a read, measured without the time in which we read too slowly.
//!
//! `max_execution_time` goes on while the server waits for us, so that a slow reader would make a
//! query count as slow. Here the time counts in which we wait for rows, and the processor time of
//! the query, since a server works ahead while we do not read.

use crate::query_id::has_id;
use crate::{ClickHouse, QueryError};
use std::time::Duration;
use tokio::time::Instant;

/// ClickHouse's code `TIMEOUT_EXCEEDED`.
const TIMEOUT_EXCEEDED: u32 = 159;
/// Number of checks of a query's processor time per `max`.
const CHECKS: u32 = 4;

/// Work budget of one query.
#[derive(Debug)]
pub(crate) struct WorkBudget {
    max: Duration,
    threads: u32,
    waited: Duration,
    check_at: Instant,
}

impl WorkBudget {
    /// A budget of `max` on each of so many threads.
    pub(crate) fn new(max: Duration, threads: u32) -> Self {
        Self {
            max,
            threads,
            waited: Duration::ZERO,
            check_at: Instant::now() + max,
        }
    }

    /// Time for which rows may still be waited for.
    pub(crate) fn left(&self) -> Duration {
        self.max.saturating_sub(self.waited)
    }

    /// Counts time spent waiting for rows.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Returns true if the query has used up its budget; asks for its processor time now and then.
    pub(crate) async fn is_over(&mut self, clickhouse: &ClickHouse, query_id: &str) -> bool {
        if self.left().is_zero() {
            return true;
        }
        if Instant::now() < self.check_at {
            return false;
        }
        let computed = clickhouse.computed(query_id).await;
        self.check_at = Instant::now() + self.max / CHECKS;
        computed.is_ok_and(|computed| computed > self.max * self.threads)
    }
}

/// Error of a query that worked for too long.
pub(crate) fn worked_too_long() -> QueryError {
    QueryError {
        code: Some(TIMEOUT_EXCEEDED),
        ..QueryError::without_code("the query worked for longer than it may")
    }
}

impl ClickHouse {
    /// Asks for the processor time of a running query.
    async fn computed(&self, query_id: &str) -> Result<Duration, QueryError> {
        let processes = self.on_every_host("processes");
        let condition = has_id(query_id);
        let query = format!(
            "SELECT toUInt64(sum(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds'])) \
             FROM {processes} WHERE {condition}"
        );
        Ok(Duration::from_micros(self.fetch_u64(&query).await?))
    }
}
