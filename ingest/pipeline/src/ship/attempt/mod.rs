//! Carries one unit out: delivers its rows, sets aside what cannot be read.

use super::deliver::{Delivery, Settled, pauses};
use super::poison::{Poison, PoisonDir};
use super::section::Place;
use super::sink::Sink;
use super::source::{self, Payload, PayloadError};
use super::unit::Unit;
use bytes::Bytes;
use metrics::{counter, histogram};
use millrace_clickhouse::InsertError;
use millrace_log::{FrameSection, LogHandle};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the units of a lane have in common.
#[derive(Debug)]
pub struct Context<K> {
    pub lane: &'static str,
    /// Node, salt and lane: the beginning of every token, and the name under which we ask for the
    /// server's run.
    pub prefix: String,
    pub log: LogHandle,
    pub sink: K,
    pub poison_dir: PoisonDir,
}

/// What the plan is to do with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rows are in ClickHouse or set aside.
    Settled,
    /// Send again under the next attempt.
    Absent,
    /// Record again, then send.
    Restarted,
    /// Halve.
    Refused,
}

impl<K: Sink> Context<K> {
    /// Ends when it is known what became of the unit's rows.
    pub async fn carry_out(self: Arc<Self>, unit: Arc<Unit<FrameSection>>) -> Verdict {
        let payload = match self.payload(&unit).await {
            Ok(payload) => payload,
            Err(reason) => return self.give_up(&unit, Vec::new(), None, reason).await,
        };
        let started = Instant::now();
        let token = unit.token(&self.prefix);
        let delivery = Delivery {
            lane: self.lane,
            scope: &self.prefix,
            insert_target: &unit.key.insert_target,
            table: unit.key.table(),
            month: unit.key.month,
            token: &token,
            keys: &payload.keys,
            body: &payload,
            run: unit.run,
            in_doubt: unit.in_doubt,
        };
        match delivery.settle(&self.sink).await {
            Settled::Stored => {
                self.count_stored(&unit, started.elapsed());
                Verdict::Settled
            }
            Settled::Absent => {
                tracing::warn!(token, "rows in doubt are not there and are sent again");
                Verdict::Absent
            }
            Settled::Restarted => Verdict::Restarted,
            Settled::Refused(error) => self.refused(&unit, payload.cut, error).await,
            Settled::Lost(reason) => self.give_up(&unit, Vec::new(), None, reason).await,
        }
    }

    async fn refused(
        &self,
        unit: &Arc<Unit<FrameSection>>,
        cut: Option<Bytes>,
        error: InsertError,
    ) -> Verdict {
        let blocks: Vec<Bytes> = match cut {
            Some(cut) => vec![cut],
            None => self.whole(unit).into_iter().collect(),
        };
        let mut is_whole = unit.halves().is_none();
        if unit.sections.len() == 1 && unit.range.is_none() {
            // A section whose rows cannot be told apart is set aside as it is.
            is_whole |= source::check_cuttable(&unit.key.insert_target, &blocks).is_err();
        }
        if !is_whole {
            tracing::warn!(
                rows = unit.rows(),
                "ClickHouse cannot read an insert: {error}"
            );
            return Verdict::Refused;
        }
        self.give_up(unit, blocks, error.code, error.message).await
    }

    /// What to send; an error is for good.
    async fn payload(&self, unit: &Arc<Unit<FrameSection>>) -> Result<Payload, String> {
        let mut pauses = pauses();
        loop {
            let (log, to_read) = (self.log.clone(), Arc::clone(unit));
            let read = tokio::task::spawn_blocking(move || Payload::of(&log, &to_read)).await;
            let error = match read {
                Ok(Ok(payload)) => return Ok(payload),
                Ok(Err(PayloadError::Damaged(reason) | PayloadError::Uncuttable(reason))) => {
                    return Err(reason);
                }
                Ok(Err(PayloadError::Read(error))) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::error!("the log cannot be read, trying again: {error}");
            tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(10))).await;
        }
    }

    /// Sets the rows of a unit aside. A unit of several sections is halved first, so that only
    /// what is bad is set aside.
    async fn give_up(
        &self,
        unit: &Arc<Unit<FrameSection>>,
        blocks: Vec<Bytes>,
        clickhouse_code: Option<u32>,
        reason: String,
    ) -> Verdict {
        if unit.sections.len() > 1 {
            return Verdict::Refused;
        }
        let Some(place) = unit.first() else {
            return Verdict::Settled;
        };
        let poison = self.poison(unit, place, &blocks, clickhouse_code, reason);
        let mut pauses = pauses();
        loop {
            let (dir, to_write) = (self.poison_dir.clone(), poison.clone());
            let written = tokio::task::spawn_blocking(move || dir.set_aside(&to_write)).await;
            let error = match written {
                Ok(Ok(path)) => {
                    self.count_set_aside(&poison, &path.display().to_string());
                    return Verdict::Settled;
                }
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            tracing::error!("rows cannot be set aside, trying again: {error}");
            tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(10))).await;
        }
    }

    fn poison(
        &self,
        unit: &Unit<FrameSection>,
        place: Place,
        blocks: &[Bytes],
        clickhouse_code: Option<u32>,
        reason: String,
    ) -> Poison {
        // What was sent, or else the whole section as it lies in the log, or else nothing.
        let blocks = if blocks.is_empty() {
            self.whole(unit).into_iter().collect()
        } else {
            blocks.to_vec()
        };
        let unpacked = source::unpacked(&blocks).ok();
        Poison {
            key: unit.key.clone(),
            place,
            row: unit.range.map_or(0, |range| range.from),
            rows: unit.rows(),
            is_unpacked: unpacked.is_some(),
            bytes: unpacked.unwrap_or_else(|| blocks.concat()),
            clickhouse_code,
            reason,
        }
    }

    /// The only section of a unit, as it lies in the log.
    fn whole(&self, unit: &Unit<FrameSection>) -> Option<Bytes> {
        let [section] = unit.sections.as_slice() else {
            return None;
        };
        let reader = self.log.reader(section.place.frame);
        reader.read_blocks(&section.source).ok()
    }

    fn count_stored(&self, unit: &Unit<FrameSection>, took: Duration) {
        let table = unit.key.table_name().to_owned();
        counter!("millrace_insert_rows_total", "lane" => self.lane, "table" => table.clone())
            .increment(unit.rows());
        counter!("millrace_insert_row_bytes_total", "lane" => self.lane, "table" => table)
            .increment(unit.row_bytes());
        counter!("millrace_inserts_total", "lane" => self.lane).increment(1);
        histogram!("millrace_insert_seconds", "lane" => self.lane).record(took);
        histogram!("millrace_insert_batch_rows", "lane" => self.lane).record(unit.rows() as f64);
    }

    fn count_set_aside(&self, poison: &Poison, path: &str) {
        counter!("millrace_insert_rows_set_aside_total", "lane" => self.lane)
            .increment(poison.rows);
        tracing::error!(
            rows = poison.rows,
            place = %poison.place,
            "ClickHouse cannot read rows; they are set aside in {path}: {}",
            poison.reason
        );
    }
}
