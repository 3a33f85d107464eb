//! Executes one insert batch: delivers its rows, dead-letters those that cannot be read.

mod salvage;
mod shards;
#[cfg(test)]
mod tests;

pub use salvage::DamagedPlaces;

use super::attribution::StoredCounts;
use super::backoff::pauses;
use super::blocking::run_blocking;
use super::dead_letters::{DeadLetter, DeadLetters};
use super::filled_columns::FilledColumns;
use super::insert_batch::InsertBatch;
use super::insert_result::InsertResult;
use super::options::InsertFormat;
use super::plan::BatchId;
use super::retries::{DeliveryStage, Retries};
use super::section::SectionPosition;
use super::sent_rows::SentRows;
use super::sink::Sink;
use super::source::{self, PayloadError, UnusableRows};
use bytes::Bytes;
use metrics::{counter, histogram};
use millrace_clickhouse::InsertError;
use millrace_log::{FrameSection, LogHandle, ReadError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of rows up to which no server has too little memory for them, and which every gateway takes
/// that is fit to stand before one.
const SMALL_BYTES: u64 = 1 << 20;

/// State shared by the insert batches of a lane.
#[derive(Debug)]
pub struct InsertContext<K> {
    pub lane: &'static str,
    /// Name of this node, under which all its lanes ask for the server's boot id.
    pub node: String,
    /// Prefix of every token: node, salt and lane.
    pub prefix: String,
    pub log: LogHandle,
    pub insert_format: InsertFormat,
    pub filled_columns: FilledColumns,
    pub sink: K,
    pub dead_letters: DeadLetters,
    pub retries: Retries,
    pub stored_counts: StoredCounts,
    pub damaged_places: DamagedPlaces,
}

/// Blocks of a section as they lie in the log.
struct LoggedBlocks {
    blocks: Vec<Bytes>,
    is_damaged: bool,
}

impl<K: Sink> InsertContext<K> {
    /// Tries the batch until the outcome of its rows is known, or it is known that nobody can tell
    /// whether they or the server are to blame.
    pub async fn execute(
        self: Arc<Self>,
        id: BatchId,
        batch: Arc<InsertBatch<FrameSection>>,
        stage: DeliveryStage,
    ) -> InsertResult {
        if self.is_to_be_doubted(&batch) {
            return InsertResult::InDoubt;
        }
        let sent = match self.sent_rows(&batch, stage).await {
            Ok(sent) => sent,
            Err(error) => return self.unreadable(&batch, error).await,
        };
        let payload = &sent.payload;
        let started = Instant::now();
        let token = batch.token(&self.prefix);
        let lookup = payload.lookup.clone();
        let delivery = self.delivery((id, stage), &batch, (lookup, token.as_str()), &sent);
        let mut result = delivery.settle(&self.sink).await;
        if matches!(result, InsertResult::Parted) && self.sink.is_sharded() {
            let lookup = (&payload.lookup, &*token);
            result = self.complete((id, stage), &batch, lookup).await;
        }
        match result {
            InsertResult::Stored => {
                self.stored_counts.count(&batch.key);
                self.count_stored(&batch, started.elapsed());
                if payload.is_salvaged {
                    self.count_salvaged(batch.rows());
                }
                result
            }
            // Usual after a start with rows that wait, unless a copy of the folder was used
            // elsewhere.
            InsertResult::Absent if batch.is_suspect => result,
            InsertResult::Absent => {
                tracing::warn!(token, "rows in doubt are not there and are sent again");
                result
            }
            InsertResult::Restarted
            | InsertResult::InDoubt
            | InsertResult::Incomplete
            | InsertResult::DeadLettered => result,
            InsertResult::Parted => {
                tracing::warn!(
                    token,
                    "some of the rows are there already; the others are looked for"
                );
                result
            }
            InsertResult::Refused(error) => {
                let cut = payload.cut.clone();
                self.refused(&batch, cut, error, true).await
            }
            InsertResult::Unproven {
                can_halve: false, ..
            } => result,
            InsertResult::Unproven { error, .. } => {
                let cut = payload.cut.clone();
                self.refused(&batch, cut, error, false).await
            }
            InsertResult::Unknowable(error) => self.give_up_unknown(&batch, error).await,
            InsertResult::Lost(reason) => self.lost((id, stage), &batch, reason).await,
        }
    }

    /// Halves a batch that ClickHouse refuses, and dead-letters one that cannot be halved, if
    /// `is_proven` that the rows are to blame.
    async fn refused(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        cut: Option<Bytes>,
        error: InsertError,
        is_proven: bool,
    ) -> InsertResult {
        let LoggedBlocks { blocks, is_damaged } = match cut {
            Some(cut) => LoggedBlocks {
                blocks: vec![cut],
                is_damaged: false,
            },
            None => self.whole(batch).await,
        };
        let mut is_whole = batch.halves().is_none();
        // Of a section that is damaged by now, halves take the rows that can be read.
        if batch.sections.len() == 1 && batch.range.is_none() && !is_damaged {
            // A section whose rows cannot be told apart is dead-lettered as it is.
            is_whole |= source::check_cuttable(&batch.key.insert_target, &blocks).is_err();
        }
        // A batch this small is never to blame for its size.
        let is_small = error.is_too_large() && batch.row_bytes() < SMALL_BYTES;
        if !is_proven || (is_whole && is_small) {
            return InsertResult::Unproven {
                error,
                can_halve: !is_whole,
            };
        }
        if !is_whole {
            tracing::warn!(
                rows = batch.rows(),
                "ClickHouse refuses an insert, which is sent by halves: {error}"
            );
            return InsertResult::Refused(error);
        }
        let mut reason = error.message;
        if self.sink.is_sharded() && batch.rows() > 1 {
            reason.push_str(
                "; shards other than the one that refuses may have stored rows of these: look for \
                 them before you insert them",
            );
        }
        self.give_up(batch, blocks, error.code, reason).await
    }

    /// Reads the payload of a batch, again and again while the disk fails.
    async fn sent_rows(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        stage: DeliveryStage,
    ) -> Result<SentRows, UnusableRows> {
        let (log, batch) = (self.log.clone(), Arc::clone(batch));
        let filled = self.filled_columns.clone();
        let format = match stage {
            DeliveryStage::First => self.insert_format,
            // It may be the block that the server does not take.
            DeliveryStage::KeptWhole | DeliveryStage::LastPart => InsertFormat::RowBinary,
        };
        retry_forever("the log cannot be read", move || {
            match SentRows::of(&log, &batch, format, &filled) {
                Ok(sent) => Ok(Ok(sent)),
                Err(PayloadError::Unusable(error)) => Ok(Err(error)),
                Err(PayloadError::Read(error)) => Err(error.to_string()),
            }
        })
        .await
    }

    /// Settles a batch whose payload cannot be made.
    async fn unreadable(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        error: UnusableRows,
    ) -> InsertResult {
        match error {
            UnusableRows::Damaged { reason, sound_rows } => {
                self.damaged_part(batch, sound_rows, reason).await
            }
            UnusableRows::Uncuttable(reason) => self.give_up(batch, Vec::new(), None, reason).await,
        }
    }

    /// Dead-letters the rows of a batch. A batch of several sections is halved first, so that only
    /// bad rows are dead-lettered.
    async fn give_up(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        blocks: Vec<Bytes>,
        clickhouse_code: Option<u32>,
        reason: String,
    ) -> InsertResult {
        if batch.sections.len() > 1 {
            return InsertResult::Lost(reason);
        }
        let Some(position) = batch.sections.first().map(|section| section.position) else {
            return InsertResult::DeadLettered;
        };
        // The sent blocks, or else the whole section as it lies in the log, or else nothing.
        let blocks = if blocks.is_empty() {
            self.whole(batch).await.blocks
        } else {
            blocks
        };
        let letter = dead_letter(batch, position, &blocks, clickhouse_code, reason);
        let path = self.write_dead_letter(&letter).await;
        self.count_dead_lettered(&letter, &path.display().to_string());
        InsertResult::DeadLettered
    }

    /// Dead-letters rows of a table that this version does not know, section by section, and sends
    /// nothing again: they may be stored.
    async fn give_up_unknown(
        &self,
        batch: &Arc<InsertBatch<FrameSection>>,
        error: InsertError,
    ) -> InsertResult {
        let reason = format!(
            "this version does not know the table {}, and cannot look up whether these rows are \
             stored. Look for them before you insert them. Let the proxy before ClickHouse pass \
             X-ClickHouse-Query-Id on, or start a version that knows the table ({error})",
            batch.key.table_name()
        );
        for section in &batch.sections {
            let alone = InsertBatch {
                sections: vec![section.clone()],
                ..InsertBatch::clone(batch)
            };
            self.give_up(&Arc::new(alone), Vec::new(), None, reason.clone())
                .await;
        }
        InsertResult::Unknowable(error)
    }

    /// Writes a dead letter's files and returns their path.
    async fn write_dead_letter(&self, letter: &DeadLetter) -> PathBuf {
        let (dir, letter) = (self.dead_letters.clone(), Arc::new(letter.clone()));
        retry_forever("rows cannot be dead-lettered", move || {
            dir.write(&letter).map_err(|error| error.to_string())
        })
        .await
    }

    /// Reads the only section of a batch as it lies in the log, damaged or not; empty if there are
    /// several.
    async fn whole(&self, batch: &Arc<InsertBatch<FrameSection>>) -> LoggedBlocks {
        if batch.sections.len() != 1 {
            return LoggedBlocks {
                blocks: Vec::new(),
                is_damaged: false,
            };
        }
        let (log, batch) = (self.log.clone(), Arc::clone(batch));
        retry_forever("the log cannot be read", move || {
            let (blocks, is_damaged) = match source::read(&log, &batch.sections) {
                Err(ReadError::Corrupt { .. }) => {
                    (source::read_unproven(&log, &batch.sections), true)
                }
                read => (read, false),
            };
            let blocks = blocks.map_err(|error| error.to_string())?;
            Ok(LoggedBlocks { blocks, is_damaged })
        })
        .await
    }

    fn count_stored(&self, batch: &InsertBatch<FrameSection>, took: Duration) {
        let table = batch.key.table_name().to_owned();
        counter!("millrace_insert_rows_total", "lane" => self.lane, "table" => table.clone())
            .increment(batch.rows());
        counter!("millrace_insert_row_bytes_total", "lane" => self.lane, "table" => table)
            .increment(batch.row_bytes());
        counter!("millrace_inserts_total", "lane" => self.lane).increment(1);
        histogram!("millrace_insert_seconds", "lane" => self.lane).record(took);
        histogram!("millrace_insert_batch_rows", "lane" => self.lane).record(batch.rows() as f64);
    }

    fn count_dead_lettered(&self, letter: &DeadLetter, path: &str) {
        counter!("millrace_insert_rows_dead_lettered_total", "lane" => self.lane)
            .increment(letter.rows);
        tracing::error!(
            rows = letter.rows,
            place = %letter.position,
            "ClickHouse cannot read rows; they are dead-lettered in {path}: {}",
            letter.reason
        );
    }
}

fn dead_letter(
    batch: &InsertBatch<FrameSection>,
    position: SectionPosition,
    blocks: &[Bytes],
    clickhouse_code: Option<u32>,
    reason: String,
) -> DeadLetter {
    let unpacked = source::unpacked(blocks).ok();
    DeadLetter {
        key: batch.key.clone(),
        position,
        row: batch.range.map_or(0, |range| range.from),
        rows: batch.rows(),
        is_unpacked: unpacked.is_some(),
        bytes: unpacked.unwrap_or_else(|| blocks.concat()),
        clickhouse_code,
        reason,
    }
}

/// Retries blocking work, with pauses after each failure, until there is a result. Rows wait for as
/// long as that takes: a disk that fails for a while must not lose them.
async fn retry_forever<T: Send + 'static>(
    failure: &str,
    work: impl Fn() -> Result<T, String> + Clone + Send + 'static,
) -> T {
    let mut pauses = pauses();
    loop {
        let error = match run_blocking(work.clone()).await {
            Ok(result) => return result,
            Err(error) => error,
        };
        tracing::error!("{failure}, trying again: {error}");
        tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(10))).await;
    }
}
