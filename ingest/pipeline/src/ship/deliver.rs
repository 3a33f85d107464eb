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

use super::pace::Pace;
use super::sink::Sink;
use metrics::counter;
use millrace_clickhouse::{Body, InsertError, InsertOutcome, QueryError};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_rows::{Month, RowKey, Table};
use uuid::Uuid;

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

impl Trouble {
    /// Tells that nobody could be reached, or that something was only asked: trying again soon costs
    /// little. An insert that was sent, and refused by a gateway or cut off, would be sent whole again.
    const fn is_away(&self) -> bool {
        match self {
            Self::Insert(error) => {
                matches!(error.outcome, InsertOutcome::NotStored) && error.code.is_none()
            }
            Self::Query(_) | Self::StillRunning => true,
        }
    }
}

impl<B: Body> Delivery<'_, B> {
    /// Tries until the outcome is known, for as long as that takes.
    pub async fn settle<K: Sink>(mut self, sink: &K) -> Settled {
        let mut pace = Pace::new();
        let mut is_first = true;
        loop {
            match self.step(sink, is_first).await {
                Ok(settled) => return settled,
                Err(trouble) => {
                    let failed = pace.failed(trouble.is_away());
                    self.report(sink, &trouble, failed.is_said).await;
                    tokio::time::sleep(failed.pause).await;
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

    async fn report<K: Sink>(&self, sink: &K, trouble: &Trouble, is_said: bool) {
        let (outcome, message, is_schema) = match trouble {
            Trouble::Insert(error) => (
                error.outcome.name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Trouble::Query(error) => (
                error.outcome_name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Trouble::StillRunning => (
                "running",
                "an earlier try is still running".to_owned(),
                false,
            ),
        };
        counter!("millrace_insert_retries_total", "lane" => self.lane, "outcome" => outcome)
            .increment(1);
        if !is_schema {
            if is_said {
                tracing::warn!(
                    token = self.token,
                    outcome,
                    "insert will be tried again: {message}"
                );
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::fake_sink::FakeSink;
    use bytes::Bytes;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tokio::time::Instant;

    /// Delivers to a server that fails like this for an hour; how long after that it has the rows,
    /// and how often it was tried.
    async fn after_an_hour_of(outcome: InsertOutcome, code: Option<u32>) -> (Duration, u32) {
        let back = Instant::now() + Duration::from_secs(3_600);
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let sink = FakeSink::answering(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            if Instant::now() >= back {
                return Ok(());
            }
            Err(InsertError {
                outcome,
                code,
                message: "no".to_owned(),
            })
        });
        let delivery = Delivery {
            lane: "live",
            scope: "node",
            insert_target: "events(uuid)",
            table: Some(Table::Events),
            month: Month(202_611),
            token: "token",
            keys: &[],
            body: &Vec::<Bytes>::new(),
            run: None,
            in_doubt: false,
        };
        let settled = delivery.settle(&sink).await;
        assert!(matches!(settled, Settled::Stored), "{settled:?}");
        (back.elapsed(), tries.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn the_return_of_a_server_is_noticed_in_two_seconds_and_one_that_refuses_is_let_alone() {
        let table = [
            (InsertOutcome::Unknown, None, 20),
            (InsertOutcome::NotStored, None, 2),
            (InsertOutcome::NotStored, Some(252), 20),
            (InsertOutcome::Misconfigured, Some(516), 20),
        ];
        for (outcome, code, seconds) in table {
            let (late, tries) = after_an_hour_of(outcome, code).await;
            assert!(
                late <= Duration::from_secs(seconds),
                "{outcome:?}: {late:?}"
            );
            assert!(tries < 7_200 / seconds as u32 + 20, "{outcome:?}: {tries}");
        }
    }
}
