//! Model of the log and of the process.

use super::folder::{Folder, LoggedFrame, Snapshot};
use super::op::Op;
use super::server::{Fate, RowId, Server, encoded};
use super::source::{Source, rows_beside, rows_of};
use crate::ship::attribution::{FailureHistory, StoredCounts};
use crate::ship::checkpoint::Checkpoint;
use crate::ship::deliver::Delivery;
use crate::ship::insert_batch::InsertBatch;
use crate::ship::insert_result::InsertResult;
use crate::ship::limits::Limits;
use crate::ship::plan::{BatchId, Now, Plan};
use crate::ship::retries::{DeliveryStage, Retries};
use crate::ship::row_lookup::{RowLookup, spread};
use crate::ship::section::{InsertKey, Section, SectionPosition};
use millrace_log::Position;
use millrace_rows::{Month, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

type Rows = Vec<RowId>;

pub(super) struct Model {
    pub(super) server: Server,
    pub(super) folder: Folder,
    /// Copy of the folder, and the number of rows at that time.
    pub(super) copy: Option<(Folder, RowId)>,
    pub(super) snapshot: Option<Snapshot>,
    starts: u32,
    /// Mark of the start whose process runs.
    pub(super) start_mark: u32,
    pub(super) plan: Plan<Rows>,
    elapsed: Duration,
    pub(super) rows: RowId,
    pub(super) dead_lettered: BTreeSet<RowId>,
    /// Rows that came after the copy that was restored, or of a frame that is lost: they may have
    /// been shipped or not.
    pub(super) gone: BTreeSet<RowId>,
    /// Rows that are damaged in the log.
    pub(super) damaged: BTreeSet<RowId>,
    salts: u32,
    /// Batches that fail for their rows or for the server: not known yet.
    unproven: JoinSet<(BatchId, Arc<InsertBatch<Rows>>, InsertResult)>,
    stored_counts: Arc<StoredCounts>,
    /// Permits and locks of the failing batches of this start.
    retries: Arc<Retries>,
    /// True if batches fail a few times before their outcome is known.
    is_failing: bool,
}

pub(super) const LIMITS: Limits = Limits {
    rows_target: 12,
    bytes_target: 1 << 20,
    age_recent: Duration::from_millis(100),
    age_old: Duration::from_millis(900),
    early_every: Duration::from_millis(500),
    early_max: 2,
    in_flight_max: 3,
    sections_max: 4,
    parts_max: 3,
};

impl Model {
    pub(super) fn new(fates: Vec<Fate>, bad: BTreeSet<RowId>) -> Self {
        let server = Server::default();
        server.state().fates = fates.into();
        server.state().bad = bad;
        let start = Position {
            segment: 1,
            offset: 64,
        };
        Self {
            server,
            folder: Folder {
                log: BTreeMap::new(),
                end: start,
                stored: None,
            },
            copy: None,
            snapshot: None,
            starts: 0,
            start_mark: 0,
            plan: Plan::new(LIMITS, 0, 0, start, start),
            elapsed: Duration::ZERO,
            rows: 0,
            dead_lettered: BTreeSet::new(),
            gone: BTreeSet::new(),
            damaged: BTreeSet::new(),
            salts: 0,
            unproven: JoinSet::new(),
            is_failing: false,
            stored_counts: Arc::default(),
            retries: Arc::new(Retries::new(LIMITS.in_flight_max).0),
        }
    }

    fn now(&self, is_draining: bool) -> Now {
        Now {
            elapsed: self.elapsed,
            recent: Month(202_611),
            is_draining,
        }
    }

    fn append(&mut self, sections: &[(u8, u8, u8)]) {
        let keys = [
            ("events(uuid)", 202_611),
            ("events(uuid)", 202_001),
            ("rejected_events(raw)", 202_611),
            ("person_updates(uuid)", 202_611),
        ];
        let mut frame = Vec::new();
        for &(key, count, twin) in sections {
            let (target, month) = keys[usize::from(key) % keys.len()];
            let rows: Rows = (self.rows..).take(usize::from(count)).collect();
            if let Some([first, second]) = rows
                .get(usize::from(twin)..)
                .and_then(<[_]>::first_chunk::<2>)
            {
                self.server.state().twins.insert(*second, *first);
            }
            self.rows += u64::from(count);
            let key = InsertKey {
                insert_target: target.into(),
                month: Month(month),
            };
            frame.push((key, rows));
        }
        let start = self.folder.end;
        self.folder.end.offset += 64;
        let logged = LoggedFrame {
            end: self.folder.end,
            sections: frame,
        };
        self.folder.log.insert(start, logged);
    }

    fn read(&mut self) {
        while self.plan.has_capacity() {
            let from = self.plan.read_to();
            let Some((&frame, logged)) = self.folder.log.range(from..).next() else {
                return self.plan.reached(self.folder.end);
            };
            let gathered: Vec<_> = logged
                .sections
                .iter()
                .zip(0..)
                .map(|((key, rows), section)| {
                    let keys: Vec<RowKey> = self.keys_of(rows);
                    let section = Section {
                        position: SectionPosition { frame, section },
                        rows: rows.len() as u32,
                        row_bytes: rows.len() as u64 * 100,
                        keys: spread(&keys, 4),
                        is_suspect: false,
                        source: rows.clone(),
                    };
                    (key.clone(), section)
                })
                .collect();
            self.plan.gather(logged.end, gathered, self.elapsed);
        }
    }

    /// Persists the checkpoint through its bytes and releases the log as the checkpoint allows.
    fn persist_checkpoint(&mut self) {
        let bytes = self.plan.checkpoint().to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        self.folder.log = self.folder.log.split_off(&checkpoint.low);
        self.folder.stored = Some(checkpoint);
    }

    /// Restarts the process; each start begins a segment.
    pub(super) fn restart_process(&mut self) {
        self.elapsed = Duration::ZERO;
        self.starts += 1;
        self.start_mark = self.starts;
        self.forget_tasks();
        self.folder.end = Position {
            segment: self.folder.end.segment + 1,
            offset: 64,
        };
        self.plan = match self.folder.stored.clone() {
            Some(checkpoint) => Plan::restore(LIMITS, checkpoint, self.start_mark, self.folder.end),
            None => self.fresh_plan(),
        };
    }

    /// Ends all tasks of batches.
    pub(super) fn forget_tasks(&mut self) {
        self.unproven = JoinSet::new();
        self.stored_counts = Arc::default();
        self.retries = Arc::new(Retries::new(LIMITS.in_flight_max).0);
    }

    fn fresh_plan(&mut self) -> Plan<Rows> {
        self.salts += 1;
        let folder = &self.folder;
        let start = folder.log.keys().next().copied().unwrap_or(folder.end);
        Plan::new(LIMITS, self.salts, self.start_mark, start, folder.end)
    }

    /// Starts on a log that has lost a frame.
    fn lose_frame(&mut self, nth: u8) {
        let frames: Vec<Position> = self.folder.log.keys().copied().collect();
        let frame = frames.get(usize::from(nth) % frames.len().max(1));
        let Some(lost) = frame.and_then(|frame| self.folder.log.remove(frame)) else {
            return;
        };
        let rows = lost.sections.into_iter().flat_map(|(_, rows)| rows);
        self.gone.extend(rows);
        self.restart_process();
    }

    fn keys_of(&self, rows: &[RowId]) -> Vec<RowKey> {
        let state = self.server.state();
        rows.iter().map(|row| state.key_of(*row)).collect()
    }

    /// Returns the lookup of a batch's rows.
    fn lookup(&self, batch: &InsertBatch<Rows>) -> RowLookup {
        let known = batch.known_keys();
        if batch.range.is_some() {
            let others = self.keys_of(&rows_beside(batch));
            let lookup = RowLookup::rows(self.keys_of(&rows_of(batch)), &others);
            return match batch.in_doubt {
                true => lookup,
                false => lookup.into_block(),
            };
        }
        if !batch.in_doubt && !known.is_empty() {
            return RowLookup::rows(known, &[]).into_block();
        }
        RowLookup::rows(self.keys_of(&rows_of(batch)), &[])
    }

    /// Delivers a batch, as a task of its own.
    fn deliver(
        &self,
        batch: &Arc<InsertBatch<Rows>>,
        stage: DeliveryStage,
    ) -> impl Future<Output = InsertResult> + Send + 'static {
        let (batch, server) = (Arc::clone(batch), self.server.clone());
        let token = batch.token(&self.plan.salt().to_string());
        let (stored_counts, retries) = (Arc::clone(&self.stored_counts), Arc::clone(&self.retries));
        let rows = rows_of(&batch);
        let lookup = self.lookup(&batch);
        let body = Source {
            rows: encoded(&rows),
            is_damaged: rows.iter().any(|row| self.damaged.contains(row)),
        };
        async move {
            let delivery = Delivery {
                id: 0,
                retries: &retries,
                lane: "live",
                scope: "test",
                insert_target: &batch.key.insert_target,
                table: batch.key.table(),
                month: batch.key.month,
                token: &token,
                lookup,
                body: &body,
                boot_id: batch.boot_id,
                in_doubt: batch.in_doubt,
                is_part: batch.is_part,
                history: FailureHistory::new(batch.is_part, stage),
                stored_counts: &stored_counts,
                stage,
            };
            let settled = delivery.settle(&server).await;
            if matches!(settled, InsertResult::Stored) {
                stored_counts.count(&batch.key);
            }
            settled
        }
    }

    fn apply_result(&mut self, id: BatchId, batch: &InsertBatch<Rows>, result: &InsertResult) {
        match result {
            InsertResult::Stored => self.plan.settled(id),
            InsertResult::Absent => self.plan.absent(id),
            InsertResult::Restarted => self.plan.restarted(id),
            InsertResult::InDoubt => self.plan.doubted(id),
            InsertResult::Incomplete => self.plan.incomplete(id),
            InsertResult::Parted => assert!(self.plan.parted(id)),
            // Only for unknown tables, of which the model has none.
            InsertResult::Unknowable(error) => panic!("{error}"),
            InsertResult::DeadLettered => panic!("delivery writes no dead letters"),
            InsertResult::Unproven { .. } => {
                let can_halve = batch.halves().is_some();
                let apart = self.plan.take_apart(id, can_halve, self.elapsed);
                if let Some((batch, stage)) = apart {
                    let delivered = self.deliver(&batch, stage);
                    self.unproven
                        .spawn(async move { (id, batch, delivered.await) });
                }
            }
            InsertResult::Refused(_) | InsertResult::Lost(_) => {
                let is_halved = match result {
                    InsertResult::Lost(_) => self.plan.lost(id),
                    _ => self.plan.refused(id),
                };
                if !is_halved {
                    let from = batch.range.map_or(0, |range| range.from) as usize;
                    self.dead_lettered.insert(batch.sections[0].source[from]);
                    self.plan.settled(id);
                }
            }
        }
    }

    /// One tick of the shipper; false when nothing could be sent.
    async fn ship(&mut self, sent: usize, applied: usize, is_draining: bool) -> bool {
        self.read();
        let boot_id = Uuid::from_u128(self.server.state().boot_id);
        let batches = self.plan.launch(self.now(is_draining), Some(boot_id));
        self.persist_checkpoint();
        let mut settled = Vec::new();
        for (_, batch) in batches.iter().take(sent) {
            settled.push(self.deliver(batch, DeliveryStage::First).await);
        }
        for ((id, batch), settled) in batches.iter().zip(&settled).take(applied) {
            if self.is_failing {
                self.plan.mark_failing(*id, false);
            }
            self.apply_result(*id, batch, settled);
        }
        if applied.min(sent) < batches.len() {
            self.restart_process();
        }
        if !self.unproven.is_empty() {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        while let Some(ended) = self.unproven.try_join_next() {
            let (id, batch, settled) = ended.unwrap();
            self.apply_result(id, &batch, &settled);
        }
        !batches.is_empty()
    }

    pub(super) async fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(sections) => self.append(sections),
            Op::Wait(millis) => self.elapsed += Duration::from_millis(u64::from(*millis)),
            Op::Ship { sent, applied } => {
                self.ship(usize::from(*sent), usize::from(*applied), false)
                    .await;
            }
            Op::WantUpdates => self.plan.want_updates(self.folder.end),
            Op::RestartServer => self.server.state().crash(),
            Op::ToggleFailing => self.is_failing = !self.is_failing,
            Op::RestartProcess => self.restart_process(),
            Op::Damage(row) => drop(self.damaged.insert(*row)),
            Op::LoseCheckpoint => {
                // An insert that runs under a token that no checkpoint has cannot be found.
                self.server.state().finish_running();
                self.folder.stored = None;
                self.restart_process();
            }
            Op::LoseFrame(nth) => self.lose_frame(*nth),
            Op::Copy => self.copy(),
            Op::RestoreCopy => self.restore_copy(),
            Op::Snapshot => self.take_snapshot().await,
            Op::RestoreMemory => self.restore_memory(),
        }
        let low = self.plan.low();
        let stored = self.folder.stored.as_ref();
        assert!(stored.is_none_or(|stored| stored.low <= low));
    }

    pub(super) fn end(&self) -> Position {
        self.folder.end
    }

    pub(super) async fn drain(&mut self) {
        for _ in 0..10_000 {
            if !self.unproven.is_empty() {
                // Rows that are stored meanwhile are the proof.
                self.append(&[(0, 1, 0), (1, 1, 0), (2, 1, 0), (3, 1, 0)]);
            }
            self.elapsed += Duration::from_secs(1);
            let did_ship = self.ship(usize::MAX, usize::MAX, true).await;
            if !did_ship && self.plan.is_idle() && self.plan.read_to() == self.folder.end {
                return;
            }
        }
        panic!("not drained: {:?}", self.plan);
    }
}
