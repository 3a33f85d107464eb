//! Carries one unit out: delivers its rows, sets aside what cannot be read.

mod salvage;
#[cfg(test)]
mod tests;

use super::deliver::{Delivery, Settled};
use super::pace::pauses;
use super::plan::UnitId;
use super::poison::{Poison, PoisonDir};
use super::proof::{Answers, Stores};
use super::retries::{Retries, Standing};
use super::section::Place;
use super::sink::Sink;
use super::source::{self, Payload, PayloadError};
use super::unit::Unit;
use bytes::Bytes;
use metrics::{counter, histogram};
use millrace_clickhouse::InsertError;
use millrace_log::{FrameSection, LogHandle, ReadError};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rows that no server has too little memory for, in bytes.
const SMALL_BYTES: u64 = 1 << 20;

/// What the units of a lane have in common.
#[derive(Debug)]
pub struct Context<K> {
    pub lane: &'static str,
    /// Name of this node, under which all its lanes ask for the server's run.
    pub node: String,
    /// Node, salt and lane: the beginning of every token.
    pub prefix: String,
    pub log: LogHandle,
    pub sink: K,
    pub poison_dir: PoisonDir,
    pub retries: Retries,
    pub stores: Stores,
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
    /// Halve, and ask for each half.
    Parted,
    /// Find out whether the rows or the server are to blame.
    Unproven {
        /// Whether halves can be made of it.
        can_halve: bool,
    },
}

impl<K: Sink> Context<K> {
    /// Ends when it is known what became of the unit's rows, or that nobody knows.
    pub async fn carry_out(
        self: Arc<Self>,
        id: UnitId,
        unit: Arc<Unit<FrameSection>>,
        standing: Standing,
    ) -> Verdict {
        let payload = match self.payload(&unit).await {
            Ok(payload) => payload,
            Err(reason) => return self.give_up(&unit, Vec::new(), None, reason).await,
        };
        let started = Instant::now();
        let token = unit.token(&self.prefix);
        let delivery = Delivery {
            id,
            retries: &self.retries,
            lane: self.lane,
            scope: &self.node,
            insert_target: &unit.key.insert_target,
            table: unit.key.table(),
            month: unit.key.month,
            token: &token,
            sought: payload.sought.clone(),
            body: &payload,
            run: unit.run,
            in_doubt: unit.in_doubt,
            answers: Answers::to(unit.is_part, standing),
            stores: &self.stores,
            standing,
        };
        match delivery.settle(&self.sink).await {
            Settled::Stored => {
                self.stores.count(&unit.key);
                self.count_stored(&unit, started.elapsed());
                Verdict::Settled
            }
            // As after each start with rows that wait, unless the folder went on elsewhere.
            Settled::Absent if unit.is_suspect => Verdict::Absent,
            Settled::Absent => {
                tracing::warn!(token, "rows in doubt are not there and are sent again");
                Verdict::Absent
            }
            Settled::Restarted => Verdict::Restarted,
            Settled::Parted => {
                tracing::warn!(
                    token,
                    "some of the rows are there already; the others are looked for"
                );
                Verdict::Parted
            }
            Settled::Refused(error) => {
                let cut = payload.cut.clone();
                self.refused(&unit, cut, error, true).await
            }
            Settled::Unproven(error) => {
                let cut = payload.cut.clone();
                self.refused(&unit, cut, error, false).await
            }
            Settled::Unknowable(error) => self.give_up_unknown(&unit, &error).await,
            Settled::Lost(reason) => self.lost(id, &unit, reason).await,
        }
    }

    /// Halves what ClickHouse refuses, and sets aside what cannot be halved, if `is_proven` that the rows are
    /// to blame.
    async fn refused(
        &self,
        unit: &Arc<Unit<FrameSection>>,
        cut: Option<Bytes>,
        error: InsertError,
        is_proven: bool,
    ) -> Verdict {
        let blocks: Vec<Bytes> = match cut {
            Some(cut) => vec![cut],
            None => self.whole(unit).await,
        };
        let mut is_whole = unit.halves().is_none();
        if unit.sections.len() == 1 && unit.range.is_none() {
            // A section whose rows cannot be told apart is set aside as it is.
            is_whole |= source::check_cuttable(&unit.key.insert_target, &blocks).is_err();
        }
        // So little never needs more memory than there is.
        let is_small = error.needs_memory() && unit.row_bytes() < SMALL_BYTES;
        if !is_proven || (is_whole && is_small) {
            return Verdict::Unproven {
                can_halve: !is_whole,
            };
        }
        if !is_whole {
            tracing::warn!(
                rows = unit.rows(),
                "ClickHouse refuses an insert, which is sent by halves: {error}"
            );
            return Verdict::Refused;
        }
        self.give_up(unit, blocks, error.code, error.message).await
    }

    /// What to send; an error is for good.
    async fn payload(&self, unit: &Arc<Unit<FrameSection>>) -> Result<Payload, String> {
        let (log, unit) = (self.log.clone(), Arc::clone(unit));
        keep_trying("the log cannot be read", move || {
            match Payload::of(&log, &unit) {
                Ok(payload) => Ok(Ok(payload)),
                Err(PayloadError::Damaged(reason) | PayloadError::Uncuttable(reason)) => {
                    Ok(Err(reason))
                }
                Err(PayloadError::Read(error)) => Err(error.to_string()),
            }
        })
        .await
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
        let Some(place) = unit.sections.first().map(|section| section.place) else {
            return Verdict::Settled;
        };
        // What was sent, or else the whole section as it lies in the log, or else nothing.
        let blocks = if blocks.is_empty() {
            self.whole(unit).await
        } else {
            blocks
        };
        let poison = poison(unit, place, &blocks, clickhouse_code, reason);
        let path = self.set_aside(&poison).await;
        self.count_set_aside(&poison, &path.display().to_string());
        Verdict::Settled
    }

    /// Sets rows aside of a table that this version does not know, section by section, and sends nothing again:
    /// they may be stored.
    async fn give_up_unknown(
        &self,
        unit: &Arc<Unit<FrameSection>>,
        error: &InsertError,
    ) -> Verdict {
        let reason = format!(
            "this version does not know the table {}, so that it cannot look for rows of which nobody proves that \
             they were stored; look for them before you insert them, and have whatever stands before ClickHouse pass \
             X-ClickHouse-Query-Id on, or start a version that knows the table ({error})",
            unit.key.table_name()
        );
        for section in &unit.sections {
            let alone = Unit {
                sections: vec![section.clone()],
                ..Unit::clone(unit)
            };
            self.give_up(&Arc::new(alone), Vec::new(), None, reason.clone())
                .await;
        }
        Verdict::Settled
    }

    /// Keeps rows in files; where.
    async fn set_aside(&self, poison: &Poison) -> PathBuf {
        let (dir, poison) = (self.poison_dir.clone(), Arc::new(poison.clone()));
        keep_trying("rows cannot be set aside", move || {
            dir.set_aside(&poison).map_err(|error| error.to_string())
        })
        .await
    }

    /// The only section of a unit, as it lies in the log, damaged or not; empty if it is not the only one.
    async fn whole(&self, unit: &Arc<Unit<FrameSection>>) -> Vec<Bytes> {
        if unit.sections.len() != 1 {
            return Vec::new();
        }
        let (log, unit) = (self.log.clone(), Arc::clone(unit));
        keep_trying("the log cannot be read", move || {
            match source::read(&log, &unit.sections) {
                Ok(blocks) => Ok(blocks),
                Err(ReadError::Corrupt { .. }) => {
                    source::read_unproven(&log, &unit.sections).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            }
        })
        .await
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

fn poison(
    unit: &Unit<FrameSection>,
    place: Place,
    blocks: &[Bytes],
    clickhouse_code: Option<u32>,
    reason: String,
) -> Poison {
    let unpacked = source::unpacked(blocks).ok();
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

/// Does blocking work, with pauses after what may work later, until there is a result. Rows wait
/// for as long as that takes: a disk that refuses for a while must not cost them.
async fn keep_trying<T: Send + 'static>(
    trouble: &str,
    work: impl Fn() -> Result<T, String> + Clone + Send + 'static,
) -> T {
    let mut pauses = pauses();
    loop {
        let error = match tokio::task::spawn_blocking(work.clone()).await {
            Ok(Ok(result)) => return result,
            Ok(Err(error)) => error,
            Err(error) => error.to_string(),
        };
        tracing::error!("{trouble}, trying again: {error}");
        tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(10))).await;
    }
}
