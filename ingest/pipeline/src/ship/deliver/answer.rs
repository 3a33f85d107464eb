//! Settles a batch by its answer, and by a lookup of the rows where the answer is no proof.

use super::Delivery;
use super::retry::RetryReason;
use crate::ship::attribution::Attribution;
use crate::ship::insert_result::InsertResult;
use crate::ship::retries::DeliveryStage;
use crate::ship::row_lookup::Presence;
use crate::ship::sink::Sink;
use metrics::counter;
use millrace_clickhouse::{Body, InsertError, InsertOutcome};

impl<B: Body> Delivery<'_, B> {
    /// Settles a batch that was answered with success: under a token in doubt that is no proof.
    pub(super) async fn settle_success<K: Sink>(
        &self,
        sink: &K,
    ) -> Result<InsertResult, RetryReason> {
        if self.in_doubt && !sink.tokens_are_atomic() {
            return Ok(match self.presence(sink).await? {
                Some(Presence::All) | None => InsertResult::Stored,
                Some(Presence::Some) => InsertResult::Parted,
                Some(Presence::None) => InsertResult::Absent,
            });
        }
        Ok(InsertResult::Stored)
    }

    /// Settles a batch that was not answered with success, or returns the reason to try again.
    /// Before it was sent, so many batches of the table were stored.
    pub(super) async fn settle_error<K: Sink>(
        &mut self,
        sink: &K,
        error: InsertError,
        stored: u64,
    ) -> Result<InsertResult, RetryReason> {
        if error.is_of_a_column() {
            // It may be a property column that was removed.
            self.body.columns_refused();
        }
        if sink.is_sharded()
            && self.table.is_some()
            && !self.in_doubt
            && may_be_of_some_shards(&error)
        {
            // The shard that says so has none of the rows, and those that have theirs take the same
            // rows under the token for a duplicate. What waits for its quorum may be the whole of
            // which this is a part, under another token: parts are looked up.
            let is_race = sink.tokens_are_atomic() && is_behind_another(&error) && !self.is_part;
            if is_race && self.history.record_lost_race() {
                return Err(RetryReason::Insert(error));
            }
            return Ok(self.put_in_doubt(&error));
        }
        match error.outcome {
            // The answer may be a gateway's; a lookup of the rows tells the truth.
            InsertOutcome::Unproven => {
                self.in_doubt = true;
                match self.presence(sink).await? {
                    Some(Presence::All) => Ok(InsertResult::Stored),
                    Some(Presence::Some) => Ok(InsertResult::Parted),
                    Some(Presence::None) => Err(RetryReason::Insert(error)),
                    None => self.give_up(sink, error).await,
                }
            }
            InsertOutcome::Lost => self.settle_lost(sink, error).await,
            InsertOutcome::BadData => {
                // One shard refuses while another may still store its rows.
                if sink.is_sharded() && sink.insert_is_running(self.token).await? {
                    return Err(RetryReason::StillRunning);
                }
                // A connection between hosts that ends has the same codes, and a gateway may drop
                // the text that tells.
                if sink.is_sharded()
                    && error.may_be_of_a_connection()
                    && !self.history.record_unreadable(&error)
                {
                    return Err(RetryReason::Insert(error));
                }
                // Halves have tokens of their own, and sections that cannot be looked up would be
                // stored again by shards that have them.
                if self.is_of_unknown_shards(sink) && !self.lookup.is_of_block() {
                    let settled = self.settle_refusal(sink, error, InsertResult::Refused);
                    return settled.await;
                }
                // A view may refuse what the table has already taken.
                Ok(match self.presence(sink).await? {
                    Some(Presence::All) => InsertResult::Stored,
                    Some(Presence::Some) => InsertResult::Parted,
                    Some(Presence::None) | None => InsertResult::Refused(error),
                })
            }
            InsertOutcome::Unknown
            | InsertOutcome::NotStored
            | InsertOutcome::Unread
            | InsertOutcome::Misconfigured
            | InsertOutcome::TooLarge => self.attribute(sink, error, stored).await,
        }
    }

    /// Returns the batch to be launched again in doubt.
    fn put_in_doubt(&self, error: &InsertError) -> InsertResult {
        let outcome = error.outcome.name();
        counter!("millrace_insert_retries_total", "lane" => self.lane, "outcome" => outcome)
            .increment(1);
        tracing::debug!(
            token = self.token,
            "it is open which shards have the rows, and all are looked up: {error}"
        );
        InsertResult::InDoubt
    }

    /// Settles a batch whose failures so far are due to its rows, or may be.
    async fn attribute<K: Sink>(
        &mut self,
        sink: &K,
        error: InsertError,
        stored: u64,
    ) -> Result<InsertResult, RetryReason> {
        self.in_doubt |= matches!(
            error.outcome,
            InsertOutcome::Unknown | InsertOutcome::TooLarge
        );
        match self.history.record(&error, stored) {
            Attribution::Rows => {
                self.settle_refusal(sink, error, InsertResult::Refused)
                    .await
            }
            Attribution::RowsOrServer if self.stage != DeliveryStage::LastPart => {
                self.settle_refusal(sink, error, InsertResult::unproven)
                    .await
            }
            Attribution::RowsOrServer | Attribution::Unknown => Err(RetryReason::Insert(error)),
        }
    }

    /// Settles a batch that fails again and again, unless its rows are stored or still being
    /// stored. Rows that cannot be looked up are kept together under their token.
    async fn settle_refusal<K: Sink>(
        &self,
        sink: &K,
        error: InsertError,
        result: fn(InsertError) -> InsertResult,
    ) -> Result<InsertResult, RetryReason> {
        if sink.insert_is_running(self.token).await? {
            return Err(RetryReason::StillRunning);
        }
        match self.presence(sink).await? {
            Some(Presence::All) => Ok(InsertResult::Stored),
            Some(Presence::Some) => Ok(InsertResult::Parted),
            Some(Presence::None) => Ok(result(error)),
            None if self.stage == DeliveryStage::LastPart => Err(RetryReason::Insert(error)),
            // Halves have tokens of their own, and would store again what nobody can look up.
            None => {
                let of = match self.table {
                    None => "a table",
                    Some(_) => "columns",
                };
                tracing::warn!(
                    token = self.token,
                    "rows of {of} that this version does not know are tried on as a whole; \
                     others of their month go on: {error}"
                );
                Ok(InsertResult::Unproven {
                    error,
                    can_halve: false,
                })
            }
        }
    }

    /// Gives up rows that cannot be looked up and whose success nobody proves, if ClickHouse
    /// answers queries: a proxy that answers while it is unreachable does so only for a while.
    async fn give_up<K: Sink>(
        &mut self,
        sink: &K,
        error: InsertError,
    ) -> Result<InsertResult, RetryReason> {
        if !self.history.record_unproven() {
            return Err(RetryReason::Insert(error));
        }
        if sink.insert_is_running(self.token).await? {
            return Err(RetryReason::StillRunning);
        }
        Ok(InsertResult::Unknowable(error))
    }

    /// Settles a batch whose rows can no longer be read, but which an earlier try may have
    /// stored.
    async fn settle_lost<K: Sink>(
        &self,
        sink: &K,
        error: InsertError,
    ) -> Result<InsertResult, RetryReason> {
        if self.in_doubt {
            if sink.insert_is_running(self.token).await? {
                return Err(RetryReason::StillRunning);
            }
            if self.presence(sink).await? == Some(Presence::All) {
                return Ok(InsertResult::Stored);
            }
        }
        Ok(InsertResult::Lost(error.message))
    }
}

/// Returns true if a shard refused an insert since another one of the table waits for its quorum.
fn is_behind_another(error: &InsertError) -> bool {
    // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE
    error.code == Some(286)
}

/// Returns true if some shards may have stored their rows of an insert that failed: an exception
/// may be that of another shard.
fn may_be_of_some_shards(error: &InsertError) -> bool {
    match error.outcome {
        InsertOutcome::Unknown
        | InsertOutcome::Unproven
        | InsertOutcome::BadData
        | InsertOutcome::TooLarge => true,
        InsertOutcome::NotStored | InsertOutcome::Misconfigured => error.code.is_some(),
        InsertOutcome::Unread | InsertOutcome::Lost => false,
    }
}
