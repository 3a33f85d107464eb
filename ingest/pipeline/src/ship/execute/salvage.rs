//! Salvage of a section that was damaged in the log: its blocks are dead-lettered, and rows that
//! can be read are sent.

use super::{InsertContext, SMALL_BYTES, dead_letter, retry_forever};
use crate::ship::deliver::Delivery;
use crate::ship::insert_batch::InsertBatch;
use crate::ship::insert_result::InsertResult;
use crate::ship::plan::BatchId;
use crate::ship::retries::DeliveryStage;
use crate::ship::row_keys::lookup_of;
use crate::ship::salvage::{Salvaged, salvage};
use crate::ship::section::SectionPosition;
use crate::ship::sink::Sink;
use bytes::Bytes;
use metrics::counter;
use millrace_blocks::Compressor;
use millrace_clickhouse::{InsertError, InsertOutcome};
use millrace_log::FrameSection;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Sections that were found damaged since the start: each is counted and logged once, however many
/// of its parts have damaged rows, and however often these are tried.
#[derive(Debug, Default)]
pub struct DamagedPlaces(Mutex<BTreeSet<SectionPosition>>);

impl DamagedPlaces {
    /// Adds a section; returns true if it is new.
    fn add(&self, place: SectionPosition) -> bool {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.insert(place)
    }
}

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
        let salvaged = self.keep_damaged(batch, section.position, reason).await;
        let (rows, all) = (salvaged.as_ref().map_or(0, Salvaged::count), batch.rows());
        let sent = match salvaged {
            Some(salvaged) => match self.send_salvaged((id, stage), batch, &salvaged).await {
                InsertResult::Stored => rows,
                // The batch is recorded anew first, as after a crash nobody would know another
                // token; or it is tried on as a part, for which its month does not wait.
                result @ (InsertResult::Absent
                | InsertResult::InDoubt
                | InsertResult::Incomplete
                | InsertResult::Restarted
                | InsertResult::Unproven { .. }) => return result,
                // By halves the rows that are bad, or stored already, are told from the others.
                InsertResult::Refused(error)
                    if error.outcome == InsertOutcome::BadData && batch.halves().is_some() =>
                {
                    return InsertResult::Refused(error);
                }
                InsertResult::Parted if batch.halves().is_some() => return InsertResult::Parted,
                InsertResult::DeadLettered
                | InsertResult::Parted
                | InsertResult::Refused(_)
                | InsertResult::Unknowable(_)
                | InsertResult::Lost(_) => 0,
            },
            None => 0,
        };
        self.count_salvaged(sent);
        self.count_lost(all.saturating_sub(sent));
        InsertResult::DeadLettered
    }

    /// Settles a range of rows of a section that was damaged in the log, of which `sound_rows` can
    /// be read, fewer than all. It is halved until each half has only such rows, and is sent as
    /// ever, or has none, and is dead-lettered with the section's blocks.
    pub(super) async fn damaged_part(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        sound_rows: u64,
        reason: String,
    ) -> InsertResult {
        if sound_rows > 0 && batch.halves().is_some() {
            return match batch.in_doubt {
                // It may be stored: its halves are looked up first.
                true => InsertResult::Parted,
                false => InsertResult::Lost(reason),
            };
        }
        if let Some(position) = batch.sections.first().map(|section| section.position) {
            self.keep_damaged(batch, position, reason).await;
        }
        self.count_lost(batch.rows());
        InsertResult::DeadLettered
    }

    /// Keeps the blocks of a batch's only section, damaged as they are, among the dead letters,
    /// once however many parts of the section are dead-lettered. Returns the rows that can be read.
    async fn keep_damaged(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        position: SectionPosition,
        reason: String,
    ) -> Option<Salvaged> {
        let whole = Arc::new(InsertBatch {
            range: None,
            ..InsertBatch::clone(batch)
        });
        let blocks = self.whole(&whole).await.blocks;
        let salvaged = salvaged(&whole, blocks.concat()).await;
        let (rows, all) = (salvaged.as_ref().map_or(0, Salvaged::count), whole.rows());
        // Of a part, rows between two damaged places can be read, and have no known place.
        let sent = if batch.range.is_some() {
            ""
        } else {
            ", and are sent"
        };
        let reason = format!("{reason}; {rows} of {all} rows can be read{sent}");
        let letter = dead_letter(&whole, position, &blocks, None, reason);
        let path = self.write_dead_letter(&letter).await;
        if self.damaged_places.add(position) {
            counter!("millrace_log_damaged_total", "lane" => self.lane).increment(1);
            tracing::error!(
                rows = all,
                salvaged = rows,
                place = %position,
                "rows are damaged in the log; their blocks are kept in {}: {}",
                path.display(),
                letter.reason
            );
        }
        salvaged
    }

    /// Counts rows that were stored although others of their section are damaged.
    pub(super) fn count_salvaged(&self, rows: u64) {
        counter!("millrace_insert_rows_salvaged_total", "lane" => self.lane).increment(rows);
    }

    /// Counts rows that are damaged and were not stored.
    fn count_lost(&self, rows: u64) {
        counter!("millrace_insert_rows_dead_lettered_total", "lane" => self.lane).increment(rows);
    }

    /// Sends salvaged rows together, unless they are stored already.
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
        let lookup = lookup_of(batch.key.table(), salvaged.rows.clone(), Vec::new());
        let delivery = Delivery {
            // An earlier start may have sent them.
            in_doubt: true,
            ..self.delivery((id, stage), batch, (lookup, token.as_str()), &body)
        };
        let is_small = (salvaged.bytes.len() as u64) < SMALL_BYTES;
        match delivery.settle(&self.sink).await {
            // Tried on as a whole: few rows have so rare a fault, and their blocks are kept.
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
        Ok(section.and_then(|section| salvage(&batch.key, section, &blocks, None)))
    })
    .await
}
