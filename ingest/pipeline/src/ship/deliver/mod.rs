//! Delivers one insert: tries until its outcome is known.
//!
//! An insert whose answer was lost is *in doubt*. It is settled by:
//!
//! - The token: the same bytes under the same token are stored once whatever became of the first
//!   try, if the server remembers the token.
//! - A lookup, if the server restarted: wait until no insert with the token runs, then look up the
//!   rows. One found means that all are stored; none found, that the token may be spent, so they
//!   are sent under the next attempt.
//! - A lookup before each try, if it did not restart, since it is unknown how long this process was
//!   down or cut off, and a server remembers only the last 10 000 tokens of a table, whoever sent
//!   them. None found, the token holds.
//!
//! Rows that waited or were in flight at the start may be stored in part, if the folder is a copy
//! of one that was used elsewhere. They are all looked up, and by halves if some are found.
//!
//! Rows of a table that this version does not know cannot be looked up. If inserts of them are
//! answered with a success that is not proven to be ClickHouse's, again and again while queries are
//! answered, they are dead-lettered: the proxy before ClickHouse will not change.
//!
//! A success under a token that was in doubt proves nothing either: on a plain MergeTree the token
//! may have been recorded by a try that failed before its part got a name. The rows are looked up.
//! (Replicated tables record token and part in one step, so their success is proof.)

#[cfg(test)]
mod tests;

use crate::ship::attribution::{Attribution, FailureHistory, StoredCounts};
use crate::ship::backoff::RetryBackoff;
use crate::ship::plan::BatchId;
use crate::ship::retries::{DeliveryStage, Failures, Retries};
use crate::ship::row_lookup::{Presence, RowLookup};
use crate::ship::sink::Sink;
use metrics::counter;
use millrace_clickhouse::{Body, InsertError, InsertOutcome, QueryError, QueryErrorKind};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_rows::{Month, Table};
use uuid::Uuid;

/// One insert to deliver.
#[derive(Debug)]
pub struct Delivery<'a, B> {
    pub id: BatchId,
    pub retries: &'a Retries,
    /// `live` or `historical`, for metrics.
    pub lane: &'static str,
    /// Name under which this node asks for the server's boot id.
    pub scope: &'a str,
    pub insert_target: &'a str,
    /// Table of the rows; `None` for one that this version does not know: then rows cannot be
    /// looked up, and the token alone has to do.
    pub table: Option<Table>,
    pub month: Month,
    pub token: &'a str,
    pub lookup: RowLookup,
    pub body: &'a B,
    /// Boot id of the server when the insert was recorded.
    pub boot_id: Option<Uuid>,
    pub in_doubt: bool,
    pub history: FailureHistory,
    /// Numbers of inserts that were stored in the meantime.
    pub stored_counts: &'a StoredCounts,
    /// Stage that follows if the insert was returned as [`InsertSettlement::Unproven`] before.
    pub stage: DeliveryStage,
}

/// Settlement of an insert: the known outcome of its delivery.
#[derive(Debug)]
pub enum InsertSettlement {
    /// The rows are stored.
    Stored,
    /// The rows are absent, and the token may be spent.
    Absent,
    /// Some of the rows are stored, and others are not.
    Parted,
    /// Nothing was sent that could have been stored, and the server restarted: record its new boot
    /// id before sending.
    Restarted,
    /// The rows are absent: the server cannot read them.
    Refused(InsertError),
    /// Unknown whether the rows are stored, and trying again does not help.
    Unknowable(InsertError),
    /// The rows are absent, and it is open whether they or the server are to blame.
    Unproven(InsertError),
    /// The rows can no longer be read, and no earlier try is known to have stored them.
    Lost(String),
}

/// Failure of a step that did not settle the insert; another follows after a pause.
enum InsertFailure {
    Insert(InsertError),
    Query(QueryError),
    StillRunning,
}

impl From<QueryError> for InsertFailure {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl InsertFailure {
    /// Returns true if nobody could be reached, or only a query failed: trying again soon costs
    /// little. An insert that was sent, and refused by a gateway or cut off, would be sent whole
    /// again.
    const fn is_cheap_to_retry(&self) -> bool {
        match self {
            Self::Insert(_) => self.is_unreachable(),
            Self::Query(_) | Self::StillRunning => true,
        }
    }

    /// Returns true if nobody could be reached, so that other inserts would fail, too.
    const fn is_unreachable(&self) -> bool {
        match self {
            Self::Insert(error) => {
                matches!(error.outcome, InsertOutcome::NotStored) && error.code.is_none()
            }
            Self::Query(error) => {
                matches!(
                    error.kind,
                    QueryErrorKind::NoConnection | QueryErrorKind::Tls(_)
                )
            }
            Self::StillRunning => false,
        }
    }
}

impl<B: Body> Delivery<'_, B> {
    /// Tries until the outcome is known, for as long as that takes.
    pub async fn settle<K: Sink>(mut self, sink: &K) -> InsertSettlement {
        let mut backoff = match self.stage {
            DeliveryStage::First | DeliveryStage::LastPart => RetryBackoff::new(),
            DeliveryStage::KeptWhole => RetryBackoff::patient(),
        };
        let mut failures = Failures::before(self.stage);
        let mut is_first = true;
        loop {
            let permit = self.retries.permit(&failures).await;
            let settled = self.step(sink, is_first).await;
            drop(permit);
            match settled {
                Ok(settled) => return settled,
                Err(failure) => {
                    let is_unreachable = failure.is_unreachable();
                    self.retries
                        .failed(self.id, &mut failures, is_unreachable)
                        .await;
                    let failed = backoff.failed(failure.is_cheap_to_retry());
                    self.report(sink, &failure, failed.is_logged).await;
                    tokio::time::sleep(failed.pause).await;
                }
            }
            is_first = false;
        }
    }

    async fn step<K: Sink>(
        &mut self,
        sink: &K,
        is_first: bool,
    ) -> Result<InsertSettlement, InsertFailure> {
        let is_restarted = (self.in_doubt || !is_first)
            && !sink.tokens_are_atomic()
            && Some(sink.server_boot_id(self.scope).await?) != self.boot_id;
        if is_restarted && !self.in_doubt {
            return Ok(InsertSettlement::Restarted);
        }
        // An unknown table cannot be queried: the token has to do.
        if let Some(table) = self.table
            && self.in_doubt
            && let Some(settled) = self.look_up(sink, table, is_restarted).await?
        {
            return Ok(settled);
        }
        pass(FailPoint::InsertDue);
        let stored = self.stored_counts.of(self.insert_target);
        let sent = sink.insert(self.insert_target, self.token, self.body).await;
        if sent.is_ok() {
            pass(FailPoint::InsertAnswered);
        }
        match sent {
            Ok(()) if self.in_doubt && !sink.tokens_are_atomic() => {
                let is_there = self.is_present(sink).await?.unwrap_or(true);
                Ok(if is_there {
                    InsertSettlement::Stored
                } else {
                    InsertSettlement::Absent
                })
            }
            Ok(()) => Ok(InsertSettlement::Stored),
            // The answer may be a gateway's; a lookup of the rows tells the truth.
            Err(error) if error.outcome == InsertOutcome::Unproven => {
                self.in_doubt = true;
                match self.is_present(sink).await? {
                    Some(true) => Ok(InsertSettlement::Stored),
                    Some(false) => Err(InsertFailure::Insert(error)),
                    None => self.give_up(sink, error).await,
                }
            }
            Err(error) if error.outcome == InsertOutcome::Lost => {
                self.settle_lost(sink, error).await
            }
            Err(error) if error.outcome == InsertOutcome::BadData => {
                // A view may refuse what the table has already taken.
                let is_there = self.is_present(sink).await?.unwrap_or(false);
                Ok(if is_there {
                    InsertSettlement::Stored
                } else {
                    InsertSettlement::Refused(error)
                })
            }
            Err(error) => {
                self.in_doubt |= error.outcome == InsertOutcome::Unknown;
                match self.history.record(&error, stored) {
                    Attribution::Rows => {
                        self.settle_refusal(sink, error, InsertSettlement::Refused)
                            .await
                    }
                    Attribution::RowsOrServer if self.stage != DeliveryStage::LastPart => {
                        self.settle_refusal(sink, error, InsertSettlement::Unproven)
                            .await
                    }
                    Attribution::RowsOrServer | Attribution::Unknown => {
                        Err(InsertFailure::Insert(error))
                    }
                }
            }
        }
    }

    /// Settles an insert that fails again and again, unless its rows are stored or still being
    /// stored.
    async fn settle_refusal<K: Sink>(
        &self,
        sink: &K,
        error: InsertError,
        settled: fn(InsertError) -> InsertSettlement,
    ) -> Result<InsertSettlement, InsertFailure> {
        if sink.insert_is_running(self.token).await? {
            return Err(InsertFailure::StillRunning);
        }
        match self.is_present(sink).await? {
            Some(true) => Ok(InsertSettlement::Stored),
            Some(false) => Ok(settled(error)),
            None => Err(InsertFailure::Insert(error)),
        }
    }

    /// Gives up rows that cannot be looked up and whose success nobody proves, if ClickHouse
    /// answers queries: a proxy that answers while it is unreachable does so only for a while.
    async fn give_up<K: Sink>(
        &mut self,
        sink: &K,
        error: InsertError,
    ) -> Result<InsertSettlement, InsertFailure> {
        if !self.history.record_unproven() {
            return Err(InsertFailure::Insert(error));
        }
        if sink.insert_is_running(self.token).await? {
            return Err(InsertFailure::StillRunning);
        }
        Ok(InsertSettlement::Unknowable(error))
    }

    /// Settles an insert whose rows can no longer be read, but which an earlier try may have
    /// stored.
    async fn settle_lost<K: Sink>(
        &self,
        sink: &K,
        error: InsertError,
    ) -> Result<InsertSettlement, InsertFailure> {
        if self.in_doubt {
            if sink.insert_is_running(self.token).await? {
                return Err(InsertFailure::StillRunning);
            }
            if self.is_present(sink).await?.unwrap_or(false) {
                return Ok(InsertSettlement::Stored);
            }
        }
        Ok(InsertSettlement::Lost(error.message))
    }

    /// Looks up rows that may be stored; `None` if they are not and the token still holds.
    async fn look_up<K: Sink>(
        &mut self,
        sink: &K,
        table: Table,
        is_restarted: bool,
    ) -> Result<Option<InsertSettlement>, InsertFailure> {
        if sink.insert_is_running(self.token).await? {
            return Err(InsertFailure::StillRunning);
        }
        Ok(match self.lookup.look_up(sink, table, self.month).await? {
            Presence::All => Some(InsertSettlement::Stored),
            Presence::Some => Some(InsertSettlement::Parted),
            Presence::None => {
                // From now on the rows can be stored by this insert only, as a block.
                self.lookup = std::mem::take(&mut self.lookup).into_block();
                is_restarted.then_some(InsertSettlement::Absent)
            }
        })
    }

    /// Returns true if the rows are stored, which were sent as a block; `None` if the table cannot
    /// be queried.
    async fn is_present<K: Sink>(&self, sink: &K) -> Result<Option<bool>, QueryError> {
        let Some(table) = self.table else {
            return Ok(None);
        };
        let presence = self.lookup.look_up(sink, table, self.month).await?;
        Ok(Some(presence != Presence::None))
    }

    async fn report<K: Sink>(&self, sink: &K, failure: &InsertFailure, is_logged: bool) {
        let (outcome, message, is_schema) = match failure {
            InsertFailure::Insert(error) => (
                error.outcome.name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            InsertFailure::Query(error) => (
                error.outcome_name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            InsertFailure::StillRunning => (
                "running",
                "an earlier try is still running".to_owned(),
                false,
            ),
        };
        counter!("millrace_insert_retries_total", "lane" => self.lane, "outcome" => outcome)
            .increment(1);
        if !is_schema {
            if is_logged {
                tracing::warn!(
                    token = self.token,
                    outcome,
                    "insert will be tried again: {message}"
                );
            }
            return;
        }
        match sink.migrate().await {
            // At a first start events may come before their tables exist.
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
