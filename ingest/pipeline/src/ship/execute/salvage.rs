//! Salvage of a section that was damaged in the log: its blocks are dead-lettered, and rows that
//! can be read are sent.

use super::{InsertContext, InsertResult, SMALL_BYTES, dead_letter, retry_forever};
use crate::ship::attribution::FailureHistory;
use crate::ship::deliver::{Delivery, InsertSettlement};
use crate::ship::insert_batch::InsertBatch;
use crate::ship::plan::BatchId;
use crate::ship::retries::DeliveryStage;
use crate::ship::row_lookup::RowLookup;
use crate::ship::salvage::{Salvaged, salvage};
use crate::ship::sink::Sink;
use bytes::Bytes;
use metrics::counter;
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
            return InsertResult::Refused;
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
                Ok(true) => rows,
                Ok(false) => 0,
                Err(result) => return result,
            },
            None => 0,
        };
        counter!("millrace_log_damaged_total", "lane" => self.lane).increment(1);
        counter!("millrace_insert_rows_salvaged_total", "lane" => self.lane).increment(sent);
        counter!("millrace_insert_rows_dead_lettered_total", "lane" => self.lane)
            .increment(all.saturating_sub(sent));
        InsertResult::Settled
    }

    /// Sends salvaged rows, unless they are stored already. False if ClickHouse refuses them: their
    /// blocks are kept. An error is the step that the plan takes next: it records the batch anew
    /// first, as after a crash nobody would know another token, or has it tried as a part, for
    /// which its month does not wait.
    async fn send_salvaged(
        &self,
        (id, stage): (BatchId, DeliveryStage),
        batch: &InsertBatch<FrameSection>,
        salvaged: &Salvaged,
    ) -> Result<bool, InsertResult> {
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
        // Rows beside damage cannot be cut out of the log, hence not be halved.
        let unproven = InsertResult::Unproven { can_halve: false };
        let is_small = (salvaged.bytes.len() as u64) < SMALL_BYTES;
        match delivery.settle(&self.sink).await {
            InsertSettlement::Stored => Ok(true),
            InsertSettlement::Absent => Err(InsertResult::Absent),
            InsertSettlement::Restarted => Err(InsertResult::Restarted),
            InsertSettlement::Unproven(_) => Err(unproven),
            InsertSettlement::Refused(error) if is_small && error.needs_memory() => Err(unproven),
            InsertSettlement::Refused(error) | InsertSettlement::Unknowable(error) => {
                tracing::error!(
                    token,
                    "ClickHouse refuses rows of a damaged section: {error}"
                );
                Ok(false)
            }
            InsertSettlement::Parted | InsertSettlement::Lost(_) => Ok(false),
        }
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
