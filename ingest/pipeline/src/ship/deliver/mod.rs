//! Delivers one batch: tries until its outcome is known.
//!
//! A batch whose answer was lost is *in doubt*. It is settled by:
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
//! Shards store their rows of an insert each for itself. Once it is open which of them did, the
//! batch is returned as [`InsertResult::InDoubt`], and all of its rows are looked up before each
//! further try; if some are found, only the others are sent, under the same token.
//!
//! Rows of a table that this version does not know cannot be looked up. If batches of them are
//! answered with a success that is not proven to be ClickHouse's, again and again while queries are
//! answered, they are dead-lettered: the proxy before ClickHouse will not change.
//! If they are refused again and again, for a gateway's limit or without a known reason, they are
//! tried on under their token and never halved. Other batches of their month do not wait for them.
//!
//! A success under a token that was in doubt proves nothing either: on a plain MergeTree the token
//! may have been recorded by a try that failed before its part got a name. The rows are looked up.
//! (Replicated tables record token and part in one step, so their success is proof.)

mod answer;
mod retry;
#[cfg(test)]
mod tests;

pub use retry::RetryReason;

use crate::ship::attribution::{FailureHistory, StoredCounts};
use crate::ship::backoff::RetryBackoff;
use crate::ship::insert_result::InsertResult;
use crate::ship::plan::BatchId;
use crate::ship::retries::{DeliveryStage, Failures, Retries};
use crate::ship::row_lookup::{Presence, RowLookup};
use crate::ship::sink::Sink;
use millrace_clickhouse::{Body, QueryError};
use millrace_log::fail_point::{FailPoint, pass};
use millrace_rows::{Month, Table};
use uuid::Uuid;

/// Tries under one lock, after which a batch that may be failing alone goes behind the others.
const LOCKED_TRIES_MAX: u32 = 8;

/// Delivery of one insert batch.
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
    /// Boot id of the server when the batch was recorded.
    pub boot_id: Option<Uuid>,
    pub in_doubt: bool,
    /// True for a part of a halved batch: others of its table and month do not wait for it.
    pub is_part: bool,
    pub history: FailureHistory,
    /// Numbers of batches that were stored in the meantime.
    pub stored_counts: &'a StoredCounts,
    /// Stage that follows if the batch was returned as [`InsertResult::Unproven`] before.
    pub stage: DeliveryStage,
}

impl<B: Body> Delivery<'_, B> {
    /// Tries until the outcome is known, for as long as that takes.
    pub async fn settle<K: Sink>(mut self, sink: &K) -> InsertResult {
        let mut backoff = match self.stage {
            DeliveryStage::First | DeliveryStage::LastPart => RetryBackoff::new(),
            DeliveryStage::KeptWhole => RetryBackoff::patient(),
        };
        let mut failures = Failures::before(self.stage);
        let mut month_lock = None;
        let mut tries_under_lock = 0;
        let mut is_first = true;
        loop {
            if month_lock.is_none() && !self.is_part {
                let key = (self.insert_target, self.month);
                month_lock = self.retries.lock_month(self.id, &mut failures, key).await;
                tries_under_lock = 0;
            }
            tries_under_lock += 1;
            // All projects' persons wait for updates, which others' failing months must not delay;
            // as one failing batch of a month is tried at a time, there are few.
            let is_of_updates = self.table == Some(Table::PersonUpdates) && !self.is_part;
            let permit = match is_of_updates {
                true => None,
                false => self.retries.permit(&failures).await,
            };
            let tried = self.try_once(sink, is_first).await;
            drop(permit);
            match tried {
                Ok(result) => return result,
                Err(reason) => {
                    let is_unreachable = reason.is_unreachable();
                    self.retries
                        .failed(self.id, &mut failures, is_unreachable)
                        .await;
                    let failed = backoff.failed(reason.is_cheap_to_retry());
                    let batch = (self.lane, self.token);
                    reason.report(sink, batch, failed.is_logged).await;
                    tokio::time::sleep(failed.pause).await;
                    if tries_under_lock >= LOCKED_TRIES_MAX && !reason.affects_whole_month() {
                        month_lock = None;
                    }
                }
            }
            is_first = false;
        }
    }

    /// Tries once: looks up rows that may be stored, sends those that are not, and settles the
    /// answer.
    async fn try_once<K: Sink>(
        &mut self,
        sink: &K,
        is_first: bool,
    ) -> Result<InsertResult, RetryReason> {
        let is_restarted = (self.in_doubt || !is_first)
            && !sink.tokens_are_atomic()
            && Some(sink.server_boot_id(self.scope).await?) != self.boot_id;
        if is_restarted && !self.in_doubt {
            return Ok(InsertResult::Restarted);
        }
        // An unknown table cannot be queried: the token has to do.
        if let Some(table) = self.table
            && self.in_doubt
            && let Some(result) = self.look_up(sink, table, is_restarted).await?
        {
            return Ok(result);
        }
        pass(FailPoint::InsertDue);
        let stored = self.stored_counts.of(self.insert_target);
        let answer = sink.insert(self.insert_target, self.token, self.body).await;
        match answer {
            Ok(()) => {
                pass(FailPoint::InsertAnswered);
                self.settle_success(sink).await
            }
            Err(error) => self.settle_error(sink, error, stored).await,
        }
    }

    /// Looks up rows that may be stored; `None` if they are not and the token still holds.
    async fn look_up<K: Sink>(
        &mut self,
        sink: &K,
        table: Table,
        is_restarted: bool,
    ) -> Result<Option<InsertResult>, RetryReason> {
        if sink.insert_is_running(self.token).await? {
            return Err(RetryReason::StillRunning);
        }
        if self.is_of_unknown_shards(sink) {
            return Ok(None);
        }
        Ok(match self.lookup.look_up(sink, table, self.month).await? {
            Presence::All => Some(InsertResult::Stored),
            Presence::Some => Some(InsertResult::Parted),
            Presence::None => {
                // From now on the rows can be stored by this batch only, as a block; on shards, as
                // a block of each.
                if !sink.is_sharded() {
                    self.lookup = std::mem::take(&mut self.lookup).into_block();
                }
                is_restarted.then_some(InsertResult::Absent)
            }
        })
    }

    /// Returns true if a few keys are all that is known of rows on shards: one row found says
    /// nothing of other shards, and the token has to do.
    fn is_of_unknown_shards<K: Sink>(&self, sink: &K) -> bool {
        sink.is_sharded() && self.lookup.is_of_some_rows()
    }

    /// Looks up the rows, which were sent as a block: on one server all are stored if one is.
    /// `None` if the table cannot be queried.
    async fn presence<K: Sink>(&self, sink: &K) -> Result<Option<Presence>, QueryError> {
        let Some(table) = self.table.filter(|_| !self.is_of_unknown_shards(sink)) else {
            return Ok(None);
        };
        let presence = self.lookup.look_up(sink, table, self.month).await?;
        Ok(Some(match presence {
            Presence::Some if !sink.is_sharded() => Presence::All,
            presence => presence,
        }))
    }
}
