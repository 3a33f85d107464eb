//! How long a server works for a read, when we do not take its rows as fast as they come.
//!
//! `max_execution_time` goes on while the server waits for us, so that whoever passes rows on to somebody slow would be told
//! that the query is. Here the time counts in which we wait for rows, and what the query has computed beside that:
//! a server works ahead while we do not look.

use crate::select::has_id;
use crate::{ClickHouse, QueryError};
use std::time::Duration;
use tokio::time::Instant;

/// `TIMEOUT_EXCEEDED`, as ClickHouse says it itself.
const TIMEOUT_EXCEEDED: u32 = 159;
/// From one look at what a query has computed to the next, in parts of what it may.
const LOOKS: u32 = 4;

/// The work of one query.
#[derive(Debug)]
pub(crate) struct Work {
    max: Duration,
    threads: u32,
    waited: Duration,
    look_at: Instant,
}

impl Work {
    /// Nothing so far, of `max` on each of so many threads.
    pub(crate) fn new(max: Duration, threads: u32) -> Self {
        Self {
            max,
            threads,
            waited: Duration::ZERO,
            look_at: Instant::now() + max,
        }
    }

    /// How long may be waited for it yet.
    pub(crate) fn left(&self) -> Duration {
        self.max.saturating_sub(self.waited)
    }

    /// Counts time in which we waited for rows.
    pub(crate) fn waited(&mut self, time: Duration) {
        self.waited += time;
    }

    /// Looks, when it is time, at what the query has computed; whether that is too much.
    pub(crate) async fn is_over(&mut self, clickhouse: &ClickHouse, query_id: &str) -> bool {
        if self.left().is_zero() {
            return true;
        }
        if Instant::now() < self.look_at {
            return false;
        }
        let computed = clickhouse.computed(query_id).await;
        self.look_at = Instant::now() + self.max / LOOKS;
        computed.is_ok_and(|computed| computed > self.max * self.threads)
    }
}

/// The error of a query that worked for too long.
pub(crate) fn worked_too_long() -> QueryError {
    QueryError {
        code: Some(TIMEOUT_EXCEEDED),
        ..QueryError::without_code("the query worked for longer than it may")
    }
}

impl ClickHouse {
    /// Time that processors spent on a query that still runs.
    async fn computed(&self, query_id: &str) -> Result<Duration, QueryError> {
        let processes = self.on_every_host("processes");
        let condition = has_id(query_id);
        let question = format!(
            "SELECT toUInt64(sum(ProfileEvents['UserTimeMicroseconds'] + ProfileEvents['SystemTimeMicroseconds'])) \
             FROM {processes} WHERE {condition}"
        );
        Ok(Duration::from_micros(self.fetch_u64(&question).await?))
    }
}
