//! Delivery of a batch whose rows are spread over shards: if some shards have theirs and others do
//! not, the rows that are missing are sent by themselves.
//!
//! They go under the batch's own token. A shard that stored its rows under it gets none of them
//! again; one that did not gets the same rows as before, so that a try that comes late, or that a
//! replica knows of and another does not yet, is a duplicate there.
//!
//! The token may be spent without its rows on a shard whose tables are not replicated and which
//! has restarted since. What is missing then goes under the next attempt, once the checkpoint has
//! it.

use super::{InsertContext, retry_forever};
use crate::ship::attribution::FailureHistory;
use crate::ship::backoff::RetryBackoff;
use crate::ship::chosen_rows::{ChosenRows, rows_with};
use crate::ship::deliver::{Delivery, RetryReason};
use crate::ship::insert_batch::InsertBatch;
use crate::ship::insert_result::InsertResult;
use crate::ship::plan::BatchId;
use crate::ship::retries::{DeliveryStage, Failures};
use crate::ship::row_keys::lookup_of;
use crate::ship::row_lookup::{MissingRows, RowLookup};
use crate::ship::sink::Sink;
use bytes::Bytes;
use millrace_blocks::Compressor;
use millrace_clickhouse::Body;
use millrace_log::FrameSection;
use millrace_rows::Table;
use std::sync::Arc;

impl<K: Sink> InsertContext<K> {
    /// Returns true if a batch was sent when nobody knew that shards may have some of its rows: as
    /// after a restart. It is marked before anything else is done with it.
    pub(super) fn is_to_be_doubted(&self, batch: &InsertBatch<FrameSection>) -> bool {
        self.sink.is_sharded() && batch.in_doubt && !batch.is_suspect && batch.key.table().is_some()
    }

    /// Delivers the rows that shards lack of a batch of which others have theirs, found by the
    /// lookup of all rows.
    pub(super) async fn complete(
        &self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &Arc<InsertBatch<FrameSection>>,
        (lookup, token): (&RowLookup, &str),
    ) -> InsertResult {
        let Some(table) = batch.key.table() else {
            return InsertResult::Parted;
        };
        // Rows that nothing else tells apart are told apart by halves.
        let missing = self.missing_keys((id, stage), batch, (lookup, token));
        let Some(missing) = missing.await else {
            return InsertResult::Parted;
        };
        // The replica that counted them was behind the one that lists them.
        if missing.is_empty() {
            return InsertResult::Stored;
        }
        let Some(missing) = self.rows_of(batch, missing).await else {
            return InsertResult::Parted;
        };
        tracing::info!(
            token,
            rows = missing.rows.len(),
            "rows that shards lack are sent by themselves"
        );
        let mut packed = Vec::new();
        Compressor::new().compress_into(&missing.bytes, &mut packed);
        let body = vec![Bytes::from(packed)];
        let lookup = lookup_of(Some(table), missing.rows, missing.others);
        let delivery = self.delivery((id, stage), batch, (lookup, token), &body);
        let delivery = Delivery {
            in_doubt: true,
            ..delivery
        };
        match delivery.settle(&self.sink).await {
            // Others have stored some since: all are looked up again.
            InsertResult::Absent | InsertResult::Parted if self.sink.tokens_are_atomic() => {
                InsertResult::InDoubt
            }
            InsertResult::Absent | InsertResult::Parted => InsertResult::Incomplete,
            // By halves the rows that are bad are told from those that are stored already.
            InsertResult::Refused(_) | InsertResult::Lost(_) => InsertResult::Parted,
            result => result,
        }
    }

    /// Describes a delivery of a batch, or of some of its rows.
    pub(super) fn delivery<'a, B: Body>(
        &'a self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &'a InsertBatch<FrameSection>,
        (lookup, token): (RowLookup, &'a str),
        body: &'a B,
    ) -> Delivery<'a, B> {
        Delivery {
            id,
            retries: &self.retries,
            lane: self.lane,
            scope: &self.node,
            insert_target: &batch.key.insert_target,
            table: batch.key.table(),
            month: batch.key.month,
            token,
            lookup,
            body,
            boot_id: batch.boot_id,
            in_doubt: batch.in_doubt,
            is_part: batch.is_part,
            history: FailureHistory::new(batch.is_part, stage),
            stored_counts: &self.stored_counts,
            stage,
        }
    }

    /// Asks for the rows that are missing, for as long as a shard cannot be asked; `None` if they
    /// cannot be told. Meanwhile the batch counts as failing, so that it holds no permit of the
    /// lane.
    async fn missing_keys(
        &self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &InsertBatch<FrameSection>,
        (lookup, token): (&RowLookup, &str),
    ) -> Option<MissingRows> {
        let table = batch.key.table()?;
        let mut backoff = RetryBackoff::new();
        let mut failures = Failures::before(stage);
        loop {
            let permit = match table {
                Table::PersonUpdates => None,
                Table::Events | Table::RejectedEvents => self.retries.permit(&failures).await,
            };
            let asked = lookup.missing_keys(&self.sink, table, batch.key.month);
            let reason = match asked.await {
                Ok(missing) => return missing,
                Err(error) => RetryReason::from(error),
            };
            drop(permit);
            let is_unreachable = reason.is_unreachable();
            let reported = self.retries.failed(id, &mut failures, is_unreachable);
            reported.await;
            let failed = backoff.failed(reason.is_cheap_to_retry());
            let batch = (self.lane, token);
            reason.report(&self.sink, batch, failed.is_logged).await;
            tokio::time::sleep(failed.pause).await;
        }
    }

    /// Reads the rows of a batch that are missing; `None` if one of them cannot be found.
    async fn rows_of(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        missing: MissingRows,
    ) -> Option<ChosenRows> {
        let (log, batch, missing) = (self.log.clone(), Arc::clone(batch), Arc::new(missing));
        retry_forever("the log cannot be read", move || {
            rows_with(&log, &batch, &missing).map_err(|error| error.to_string())
        })
        .await
    }
}
