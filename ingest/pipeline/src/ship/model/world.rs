//! The model of the log and of the process.

use super::Op;
use super::server::{Fate, RowId, Server, encoded, key_of};
use crate::ship::checkpoint::Checkpoint;
use crate::ship::deliver::{Delivery, Settled};
use crate::ship::limits::Limits;
use crate::ship::plan::{Now, Plan, UnitId};
use crate::ship::section::{Key, Place, Section};
use crate::ship::unit::{Unit, spread};
use bytes::Bytes;
use millrace_clickhouse::{Body, InsertError, InsertOutcome};
use millrace_log::Position;
use millrace_rows::{Month, RowKey};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use uuid::Uuid;

type Rows = Vec<RowId>;

pub(super) struct World {
    pub(super) server: Server,
    /// Frames by start: end and sections.
    log: BTreeMap<Position, (Position, Vec<(Key, Rows)>)>,
    pub(super) end: Position,
    stored: Option<Checkpoint>,
    pub(super) plan: Plan<Rows>,
    elapsed: Duration,
    pub(super) rows: RowId,
    pub(super) aside: BTreeSet<RowId>,
    /// Rows that the log can no longer give.
    pub(super) damaged: BTreeSet<RowId>,
    salts: u32,
}

/// The rows of an insert, if the log can give them all.
struct Source {
    rows: Bytes,
    is_damaged: bool,
}

impl Body for Source {
    fn len_bytes(&self) -> u64 {
        self.rows.len() as u64
    }

    async fn piece(&self, index: usize) -> Result<Option<Vec<Bytes>>, InsertError> {
        if self.is_damaged {
            return Err(InsertError {
                outcome: InsertOutcome::Lost,
                code: None,
                message: "damaged".to_owned(),
            });
        }
        Ok((index == 0).then(|| vec![self.rows.clone()]))
    }
}

const LIMITS: Limits = Limits {
    rows_target: 12,
    bytes_target: 1 << 20,
    age_recent: Duration::from_millis(100),
    age_old: Duration::from_millis(900),
    early_every: Duration::from_millis(500),
    early_max: 2,
    in_flight_max: 3,
    sections_max: 20,
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
            log: BTreeMap::new(),
            end: start,
            stored: None,
            plan: Plan::new(LIMITS, 0, start, start),
            elapsed: Duration::ZERO,
            rows: 0,
            aside: BTreeSet::new(),
            damaged: BTreeSet::new(),
            salts: 0,
        }
    }

    fn now(&self, is_draining: bool) -> Now {
        Now {
            elapsed: self.elapsed,
            recent: Month(202_611),
            is_draining,
        }
    }

    fn append(&mut self, sections: &[(u8, u8)]) {
        let keys = [
            ("events(uuid)", 202_611),
            ("events(uuid)", 202_001),
            ("rejected_events(raw)", 202_611),
        ];
        let mut frame = Vec::new();
        for &(key, count) in sections {
            let (target, month) = keys[usize::from(key) % keys.len()];
            let rows: Rows = (self.rows..).take(usize::from(count)).collect();
            self.rows += u64::from(count);
            let key = Key {
                insert_target: target.into(),
                month: Month(month),
            };
            frame.push((key, rows));
        }
        let start = self.end;
        self.end.offset += 64;
        self.log.insert(start, (self.end, frame));
    }

    fn read(&mut self) {
        while self.plan.has_room() {
            let from = self.plan.read_to();
            let Some((&frame, (end, sections))) = self.log.range(from..).next() else {
                return;
            };
            let gathered: Vec<_> = sections
                .iter()
                .zip(0..)
                .map(|((key, rows), section)| {
                    let keys: Vec<RowKey> = rows.iter().copied().map(key_of).collect();
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
            self.plan.gather(*end, gathered, self.elapsed);
        }
    }

    /// Stores the checkpoint through its bytes and releases the log as the checkpoint allows.
    fn remember(&mut self) {
        let bytes = self.plan.checkpoint().to_bytes().unwrap();
        let checkpoint = Checkpoint::from_bytes(&bytes).unwrap();
        self.log = self.log.split_off(&checkpoint.low);
        self.stored = Some(checkpoint);
    }

    fn restart_us(&mut self) {
        self.elapsed = Duration::ZERO;
        self.plan = match self.stored.clone() {
            Some(checkpoint) => Plan::restore(LIMITS, checkpoint),
            None => self.fresh_plan(),
        };
    }

    fn fresh_plan(&mut self) -> Plan<Rows> {
        self.salts += 1;
        let start = self.log.keys().next().copied().unwrap_or(self.end);
        Plan::new(LIMITS, self.salts, start, self.end)
    }

    async fn deliver(&self, unit: &Unit<Rows>) -> Settled {
        let all: Vec<RowId> = unit
            .sections
            .iter()
            .flat_map(|section| section.source.iter().copied())
            .collect();
        let rows = match unit.range {
            Some(range) => &all[range.from as usize..range.to as usize],
            None => &all,
        };
        let mut keys = unit.sample_keys();
        if keys.is_empty() {
            keys = rows.iter().copied().map(key_of).collect();
        }
        let delivery = Delivery {
            lane: "live",
            scope: "test",
            insert_target: &unit.key.insert_target,
            table: unit.key.table(),
            month: unit.key.month,
            token: &unit.token(&self.plan.salt().to_string()),
            keys: &keys,
            body: &Source {
                rows: encoded(rows),
                is_damaged: rows.iter().any(|row| self.damaged.contains(row)),
            },
            run: unit.run,
            in_doubt: unit.in_doubt,
        };
        delivery.settle(&self.server).await
    }

    fn judge(&mut self, id: UnitId, unit: &Unit<Rows>, settled: &Settled) {
        match settled {
            Settled::Stored => self.plan.settled(id),
            Settled::Absent => self.plan.absent(id),
            Settled::Restarted => self.plan.restarted(id),
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
            settled.push(self.deliver(unit).await);
        }
        for ((id, unit), settled) in units.iter().zip(&settled).take(judged) {
            self.judge(*id, unit, settled);
        }
        if judged.min(sent) < units.len() {
            self.restart_us();
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
            Op::Damage(row) => drop(self.damaged.insert(*row)),
            Op::LoseCheckpoint => {
                // Cutting sections is beyond what can be found out without the checkpoint, and so
                // is an insert that runs under a name nobody remembers.
                if self.server.state().bad.is_empty() && self.damaged.is_empty() {
                    self.server.state().finish_running();
                    self.stored = None;
                    self.restart_us();
                }
            }
        }
        let low = self.plan.low();
        assert!(self.stored.as_ref().is_none_or(|stored| stored.low <= low));
    }

    pub(super) async fn drain(&mut self) {
        for _ in 0..10_000 {
            let did_ship = self.ship(usize::MAX, usize::MAX, true).await;
            if !did_ship && self.plan.is_idle() && self.plan.read_to() == self.end {
                return;
            }
        }
        panic!("not drained: {:?}", self.plan);
    }
}
