//! One insert, until it is known what became of it.
//!
//! An insert whose answer was lost is *in doubt*. What settles it:
//!
//! - The server did not restart since the insert was first sent: the same bytes under the same token,
//!   stored once whatever became of the first try, even if it is still running.
//! - It did: wait until no insert with the token runs, then look for the rows. One found means that all
//!   are there; none found, that the token may be spent, so they go out under the next attempt.
//!
//! A success under a token that was in doubt is not believed either: on a plain MergeTree the
//! token may have been recorded by a try that failed before its part got a name. The rows are
//! looked for. (Replicated tables record token and part in one step, and are believed.)

use super::sink::Sink;
use backon::{BackoffBuilder, ExponentialBuilder};
use metrics::counter;
use millrace_clickhouse::{Body, InsertError, InsertOutcome, QueryError};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_rows::{Month, RowKey, Table};
use std::time::Duration;
use uuid::Uuid;

/// First and longest pause between two tries.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// One insert to deliver.
#[derive(Debug)]
pub struct Delivery<'a, B> {
    /// `live` or `historical`, for metrics.
    pub lane: &'static str,
    /// Under which name we ask for the server's run.
    pub scope: &'a str,
    pub insert_target: &'a str,
    /// `None` for a table that this version does not know: then its rows cannot be looked for,
    /// and the token alone has to do.
    pub table: Option<Table>,
    pub month: Month,
    pub token: &'a str,
    /// A sample of the rows, spread over the block.
    pub keys: &'a [RowKey],
    pub body: &'a B,
    /// The server's run when the insert was recorded.
    pub run: Option<Uuid>,
    pub in_doubt: bool,
}

/// What became of an insert.
#[derive(Debug)]
pub enum Settled {
    /// The rows are there.
    Stored,
    /// The rows are not there, and the token may be spent.
    Absent,
    /// Nothing was sent that could have been stored, and the server restarted: record its new run
    /// before sending.
    Restarted,
    /// The rows are not there: the server cannot read them.
    Refused(InsertError),
    /// The rows can no longer be had, and no earlier try is known to have stored them.
    Lost(String),
}

/// Why a step did not settle the insert; another follows after a pause.
enum Trouble {
    Insert(InsertError),
    Query(QueryError),
    StillRunning,
}

impl From<QueryError> for Trouble {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl<B: Body> Delivery<'_, B> {
    /// Tries until the outcome is known, for as long as that takes.
    pub async fn settle<K: Sink>(mut self, sink: &K) -> Settled {
        let mut pauses = pauses();
        let mut is_first = true;
        loop {
            match self.step(sink, is_first).await {
                Ok(settled) => return settled,
                Err(trouble) => {
                    self.report(sink, &trouble).await;
                    tokio::time::sleep(pauses.next().unwrap_or(PAUSE_MAX)).await;
                }
            }
            is_first = false;
        }
    }

    async fn step<K: Sink>(&mut self, sink: &K, is_first: bool) -> Result<Settled, Trouble> {
        let must_ask = (self.in_doubt || !is_first) && !sink.tokens_are_atomic();
        if must_ask && Some(sink.server_run(self.scope).await?) != self.run {
            if !self.in_doubt {
                return Ok(Settled::Restarted);
            }
            // An unknown table cannot be asked about: its token has to do.
            if let Some(table) = self.table {
                return self.settle_after_restart(sink, table).await;
            }
        }
        pass(FailPoint::InsertDue);
        let sent = sink.insert(self.insert_target, self.token, self.body).await;
        if sent.is_ok() {
            pass(FailPoint::InsertAnswered);
        }
        match sent {
            Ok(()) if self.in_doubt && !sink.tokens_are_atomic() => {
                let is_there = self.is_present(sink).await?.unwrap_or(true);
                Ok(if is_there {
                    Settled::Stored
                } else {
                    Settled::Absent
                })
            }
            Ok(()) => Ok(Settled::Stored),
            Err(error) if error.outcome == InsertOutcome::Lost => self.lost(sink, error).await,
            Err(error) if error.outcome == InsertOutcome::BadData => {
                // A view may refuse what the table has already taken.
                let is_there = self.is_present(sink).await?.unwrap_or(false);
                Ok(if is_there {
                    Settled::Stored
                } else {
                    Settled::Refused(error)
                })
            }
            Err(error) => {
                self.in_doubt |= error.outcome == InsertOutcome::Unknown;
                Err(Trouble::Insert(error))
            }
        }
    }

    /// The rows can no longer be had, but an earlier try may have stored them.
    async fn lost<K: Sink>(&self, sink: &K, error: InsertError) -> Result<Settled, Trouble> {
        if self.in_doubt {
            if sink.insert_is_running(self.token).await? {
                return Err(Trouble::StillRunning);
            }
            if self.is_present(sink).await?.unwrap_or(false) {
                return Ok(Settled::Stored);
            }
        }
        Ok(Settled::Lost(error.message))
    }

    async fn settle_after_restart<K: Sink>(
        &self,
        sink: &K,
        table: Table,
    ) -> Result<Settled, Trouble> {
        if sink.insert_is_running(self.token).await? {
            return Err(Trouble::StillRunning);
        }
        let is_there = sink.any_present(table, self.month, self.keys).await?;
        Ok(if is_there {
            Settled::Stored
        } else {
            Settled::Absent
        })
    }

    /// Whether the rows are there; `None` if the table cannot be asked.
    async fn is_present<K: Sink>(&self, sink: &K) -> Result<Option<bool>, QueryError> {
        match self.table {
            Some(table) => sink
                .any_present(table, self.month, self.keys)
                .await
                .map(Some),
            None => Ok(None),
        }
    }

    async fn report<K: Sink>(&self, sink: &K, trouble: &Trouble) {
        let (outcome, message, is_schema) = match trouble {
            Trouble::Insert(error) => (
                error.outcome.name(),
                error.message.as_str(),
                error.schema_is_missing(),
            ),
            Trouble::Query(error) => (
                "question",
                error.message.as_str(),
                error.schema_is_missing(),
            ),
            Trouble::StillRunning => ("running", "an earlier try is still running", false),
        };
        counter!("millrace_insert_retries_total", "lane" => self.lane, "outcome" => outcome)
            .increment(1);
        if !is_schema {
            tracing::warn!(
                token = self.token,
                outcome,
                "insert will be tried again: {message}"
            );
            return;
        }
        match sink.migrate().await {
            // At a first start events may be earlier than their tables.
            Ok(()) => tracing::info!(
                token = self.token,
                "the missing table is made; insert will be tried again"
            ),
            Err(error) => tracing::warn!(
                token = self.token,
                "the missing table cannot be made: {error}; insert will be tried again"
            ),
        }
    }
}

/// Pauses between tries: doubling, spread at random, without an end.
pub fn pauses() -> impl Iterator<Item = Duration> {
    ExponentialBuilder::default()
        .with_min_delay(PAUSE_MIN)
        .with_max_delay(PAUSE_MAX)
        .with_jitter()
        .without_max_times()
        .build()
}
