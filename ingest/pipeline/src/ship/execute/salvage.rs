//! Salvage of a section that was damaged in the log: its blocks are dead-lettered, and rows that
//! can be read are sent.

use super::{InsertContext, SMALL_BYTES, dead_letter, retry_forever};
use crate::ship::attribution::FailureHistory;
use crate::ship::deliver::Delivery;
use crate::ship::insert_batch::InsertBatch;
use crate::ship::insert_result::InsertResult;
use crate::ship::plan::BatchId;
use crate::ship::retries::DeliveryStage;
use crate::ship::row_lookup::RowLookup;
use crate::ship::salvage::{Salvaged, salvage};
use crate::ship::sink::Sink;
use bytes::Bytes;
use metrics::counter;
use millrace_clickhouse::InsertError;
use millrace_log::FrameSection;
use millrace_log::block::Compressor;
use std::sync::Arc;

impl<K: Sink> InsertContext<K> {
    /// Dead-letters the only section of a batch as it lies in the log, then sends the rows that can
    /// be read. In this order a crash in between costs nothing: the next start looks up these rows,
    /// and does the same.
    pub(super) async fn lost(
        &self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &Arc<InsertBatch<FrameSection>>,
        reason: String,
    ) -> InsertResult {
        let [section] = batch.sections.as_slice() else {
            return InsertResult::Lost(reason);
        };
        let blocks = self.whole(batch).await;
        let salvaged = match batch.range {
            None => salvaged(batch, blocks.concat()).await,
            Some(_) => None,
        };
        let rows = salvaged.as_ref().map_or(0, |it| it.rows);
        let (position, all) = (section.position, batch.rows());
        let reason = format!("{reason}; {rows} of {all} rows can be read, and are sent");
        let letter = dead_letter(batch, position, &blocks, None, reason);
        let path = self.write_dead_letter(&letter).await;
        tracing::error!(
            rows = all,
            salvaged = rows,
            place = %position,
            "rows are damaged in the log; their blocks are kept in {}: {}",
            path.display(),
            letter.reason
        );
        let sent = match salvaged {
            Some(salvaged) => match self.send_salvaged((id, stage), batch, &salvaged).await {
                InsertResult::Stored => rows,
                // The batch is recorded anew first, as after a crash nobody would know another
                // token; or it is tried on as a part, for which its month does not wait.
                result @ (InsertResult::Absent
                | InsertResult::Restarted
                | InsertResult::Unproven { .. }) => return result,
                InsertResult::DeadLettered
                | InsertResult::Parted
                | InsertResult::Refused(_)
                | InsertResult::Unknowable(_)
                | InsertResult::Lost(_) => 0,
            },
            None => 0,
        };
        counter!("millrace_log_damaged_total", "lane" => self.lane).increment(1);
        counter!("millrace_insert_rows_salvaged_total", "lane" => self.lane).increment(sent);
        counter!("millrace_insert_rows_dead_lettered_total", "lane" => self.lane)
            .increment(all.saturating_sub(sent));
        InsertResult::DeadLettered
    }

    /// Sends salvaged rows, unless they are stored already.
    async fn send_salvaged(
        &self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &InsertBatch<FrameSection>,
        salvaged: &Salvaged,
    ) -> InsertResult {
        let mut packed = Vec::new();
        Compressor::new().compress_into(&salvaged.bytes, &mut packed);
        let body = vec![Bytes::from(packed)];
        // Earlier versions counted with the number at the end.
        let token = format!("{}-salvaged-0", batch.token(&self.prefix));
        let delivery = Delivery {
            id,
            retries: &self.retries,
            lane: self.lane,
            scope: &self.node,
            insert_target: &batch.key.insert_target,
            table: batch.key.table(),
            month: batch.key.month,
            token: &token,
            lookup: RowLookup::rows(salvaged.keys.clone(), &[]),
            body: &body,
            boot_id: batch.boot_id,
            // An earlier start may have sent them.
            in_doubt: true,
            history: FailureHistory::new(batch.is_part, stage),
            stored_counts: &self.stored_counts,
            stage,
        };
        let is_small = (salvaged.bytes.len() as u64) < SMALL_BYTES;
        match delivery.settle(&self.sink).await {
            // Rows beside damage cannot be cut out of the log, hence not be halved.
            InsertResult::Unproven { error, .. } => cannot_halve(error),
            InsertResult::Refused(error) if is_small && error.is_too_large() => cannot_halve(error),
            InsertResult::Refused(error) | InsertResult::Unknowable(error) => {
                tracing::error!(
                    token,
                    "ClickHouse refuses rows of a damaged section: {error}"
                );
                InsertResult::Refused(error)
            }
            result => result,
        }
    }
}

const fn cannot_halve(error: InsertError) -> InsertResult {
    InsertResult::Unproven {
        error,
        can_halve: false,
    }
}

async fn salvaged(batch: &Arc<InsertBatch<FrameSection>>, blocks: Vec<u8>) -> Option<Salvaged> {
    let (batch, blocks) = (Arc::clone(batch), Arc::new(blocks));
    retry_forever("damaged rows cannot be looked at", move || {
        let section = batch.sections.first();
        Ok(section.and_then(|section| salvage(&batch.key, section, &blocks)))
    })
    .await
}
