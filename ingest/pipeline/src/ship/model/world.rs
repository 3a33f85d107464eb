//! The model of the log and of the process.

use super::Op;
use super::server::{Fate, RowId, Server, encoded};
use super::source::{Source, rows_beside, rows_of};
use crate::ship::checkpoint::Checkpoint;
use crate::ship::deliver::{Delivery, Settled};
use crate::ship::limits::Limits;
use crate::ship::plan::{Now, Plan, UnitId};
use crate::ship::proof::{Answers, Stores};
use crate::ship::retries::{Retries, Standing};
use crate::ship::section::{Key, Place, Section};
use crate::ship::sought::{Sought, spread};
use crate::ship::unit::Unit;
use millrace_log::Position;
use millrace_rows::{Month, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use uuid::Uuid;

type Rows = Vec<RowId>;

pub(super) struct World {
    pub(super) server: Server,
    folder: Folder,
    /// The folder as it was copied, and the rows that there were then.
    copy: Option<(Folder, RowId)>,
    starts: u32,
    pub(super) plan: Plan<Rows>,
    elapsed: Duration,
    pub(super) rows: RowId,
    pub(super) aside: BTreeSet<RowId>,
    /// Rows that came after a copy that took the folder's place, or of a frame that is lost: whether they were
    /// shipped is chance.
    pub(super) gone: BTreeSet<RowId>,
    /// Rows that the log can no longer give.
    pub(super) damaged: BTreeSet<RowId>,
    salts: u32,
    /// Inserts of which nobody knows yet whether their rows or the server are to blame.
    unproven: JoinSet<(UnitId, Arc<Unit<Rows>>, Settled)>,
    /// Whether inserts are in trouble before their outcome is known.
    is_trouble: bool,
    stores: Arc<Stores>,
}

/// What a copy of the data folder has.
#[derive(Clone)]
struct Folder {
    log: BTreeMap<Position, LoggedFrame>,
    end: Position,
    stored: Option<Checkpoint>,
}

/// A frame, without its start.
#[derive(Clone)]
struct LoggedFrame {
    end: Position,
    sections: Vec<(Key, Rows)>,
}

const LIMITS: Limits = Limits {
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

impl World {
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
            starts: 0,
            plan: Plan::new(LIMITS, 0, 0, start, start),
            elapsed: Duration::ZERO,
            rows: 0,
            aside: BTreeSet::new(),
            gone: BTreeSet::new(),
            damaged: BTreeSet::new(),
            salts: 0,
            unproven: JoinSet::new(),
            is_trouble: false,
            stores: Arc::default(),
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
            let key = Key {
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
        while self.plan.has_room() {
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
                        place: Place { frame, section },
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

    /// Stores the checkpoint through its bytes and releases the log as the checkpoint allows.
    fn remember(&mut self) {
        let bytes = self.plan.checkpoint().to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        self.folder.log = self.folder.log.split_off(&checkpoint.low);
        self.folder.stored = Some(checkpoint);
    }

    /// Each start begins a segment.
    fn restart_us(&mut self) {
        self.elapsed = Duration::ZERO;
        self.starts += 1;
        self.unproven = JoinSet::new();
        self.stores = Arc::default();
        self.folder.end = Position {
            segment: self.folder.end.segment + 1,
            offset: 64,
        };
        self.plan = match self.folder.stored.clone() {
            Some(checkpoint) => Plan::restore(LIMITS, checkpoint, self.starts, self.folder.end),
            None => self.fresh_plan(),
        };
    }

    fn fresh_plan(&mut self) -> Plan<Rows> {
        self.salts += 1;
        let folder = &self.folder;
        let start = folder.log.keys().next().copied().unwrap_or(folder.end);
        Plan::new(LIMITS, self.salts, self.starts, start, folder.end)
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
        self.restart_us();
    }

    /// Copies the folder while the process is stopped.
    fn copy(&mut self) {
        self.copy = Some((self.folder.clone(), self.rows));
        self.restart_us();
    }

    /// Has the copy take the folder's place: what came since is in ClickHouse or gone.
    fn bring_back(&mut self) {
        let Some((folder, rows)) = self.copy.clone() else {
            return;
        };
        self.server.state().finish_running();
        self.folder = folder;
        self.gone.extend(rows..self.rows);
        self.restart_us();
    }

    fn keys_of(&self, rows: &[RowId]) -> Vec<RowKey> {
        let state = self.server.state();
        rows.iter().map(|row| state.key_of(*row)).collect()
    }

    /// How the rows of a unit are looked for.
    fn sought(&self, unit: &Unit<Rows>) -> Sought {
        let known = unit.known_keys();
        if unit.range.is_some() {
            let others = self.keys_of(&rows_beside(unit));
            let sought = Sought::rows(self.keys_of(&rows_of(unit)), &others);
            return match unit.in_doubt {
                true => sought,
                false => sought.into_block(),
            };
        }
        if !unit.in_doubt && !known.is_empty() {
            return Sought::rows(known, &[]).into_block();
        }
        Sought::rows(self.keys_of(&rows_of(unit)), &[])
    }

    /// Delivers a unit, as a task of its own.
    fn deliver(
        &self,
        unit: &Arc<Unit<Rows>>,
        standing: Standing,
    ) -> impl Future<Output = Settled> + Send + 'static {
        let (unit, server) = (Arc::clone(unit), self.server.clone());
        let token = unit.token(&self.plan.salt().to_string());
        let stores = Arc::clone(&self.stores);
        let rows = rows_of(&unit);
        let sought = self.sought(&unit);
        let body = Source {
            rows: encoded(&rows),
            is_damaged: rows.iter().any(|row| self.damaged.contains(row)),
        };
        async move {
            let (retries, _told) = Retries::new(1);
            let delivery = Delivery {
                id: 0,
                retries: &retries,
                lane: "live",
                scope: "test",
                insert_target: &unit.key.insert_target,
                table: unit.key.table(),
                month: unit.key.month,
                token: &token,
                sought,
                body: &body,
                run: unit.run,
                in_doubt: unit.in_doubt,
                answers: Answers::to(unit.is_part, standing),
                stores: &stores,
                standing,
            };
            let settled = delivery.settle(&server).await;
            if matches!(settled, Settled::Stored) {
                stores.count(&unit.key);
            }
            settled
        }
    }

    fn judge(&mut self, id: UnitId, unit: &Unit<Rows>, settled: &Settled) {
        match settled {
            Settled::Stored => self.plan.settled(id),
            Settled::Absent => self.plan.absent(id),
            Settled::Restarted => self.plan.restarted(id),
            Settled::Parted => assert!(self.plan.parted(id)),
            // Of tables that the model has none of.
            Settled::Unknowable(error) => panic!("{error}"),
            Settled::Unproven(_) => {
                let can_halve = unit.halves().is_some();
                let apart = self.plan.take_apart(id, can_halve, self.elapsed);
                if let Some((unit, standing)) = apart {
                    let delivered = self.deliver(&unit, standing);
                    self.unproven
                        .spawn(async move { (id, unit, delivered.await) });
                }
            }
            Settled::Refused(_) | Settled::Lost(_) => {
                if !self.plan.refused(id) {
                    let from = unit.range.map_or(0, |range| range.from) as usize;
                    self.aside.insert(unit.sections[0].source[from]);
                    self.plan.settled(id);
                }
            }
        }
    }

    /// One turn; false when nothing could be sent.
    async fn ship(&mut self, sent: usize, judged: usize, is_draining: bool) -> bool {
        self.read();
        let run = Uuid::from_u128(self.server.state().run);
        let units = self.plan.launch(self.now(is_draining), Some(run));
        self.remember();
        let mut settled = Vec::new();
        for (_, unit) in units.iter().take(sent) {
            settled.push(self.deliver(unit, Standing::Fresh).await);
        }
        for ((id, unit), settled) in units.iter().zip(&settled).take(judged) {
            if self.is_trouble {
                self.plan.troubled(*id, false);
            }
            self.judge(*id, unit, settled);
        }
        if judged.min(sent) < units.len() {
            self.restart_us();
        }
        if !self.unproven.is_empty() {
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        while let Some(ended) = self.unproven.try_join_next() {
            let (id, unit, settled) = ended.unwrap();
            self.judge(id, &unit, &settled);
        }
        !units.is_empty()
    }

    pub(super) async fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(sections) => self.append(sections),
            Op::Wait(millis) => self.elapsed += Duration::from_millis(u64::from(*millis)),
            Op::Ship { sent, judged } => {
                self.ship(usize::from(*sent), usize::from(*judged), false)
                    .await;
            }
            Op::RestartServer => self.server.state().crash(),
            Op::RestartUs => self.restart_us(),
            Op::Trouble => self.is_trouble = !self.is_trouble,
            Op::Damage(row) => drop(self.damaged.insert(*row)),
            Op::LoseCheckpoint => {
                // An insert that runs under a name nobody remembers is beyond what can be found out.
                self.server.state().finish_running();
                self.folder.stored = None;
                self.restart_us();
            }
            Op::LoseFrame(nth) => self.lose_frame(*nth),
            Op::Copy => self.copy(),
            Op::BringBack => self.bring_back(),
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
                // What is stored meanwhile is the proof.
                self.append(&[(0, 1, 0), (1, 1, 0), (2, 1, 0)]);
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
