//! The plan, the checkpoint and the delivery against a model of the log and of ClickHouse: for
//! any frames, faults, crashes and restarts, every row is delivered exactly once.
//!
//! The model of ClickHouse knows what the real one does wrong: a token may be recorded without
//! its rows when the server dies between the two, an answer may be lost before or after the rows
//! are stored, and an insert may go on running after its client has gone.

use super::checkpoint::Checkpoint;
use super::deliver::{Delivery, Settled};
use super::limits::Limits;
use super::plan::{Now, Plan, UnitId};
use super::section::{Key, Place, Section};
use super::sink::Sink;
use super::unit::{Unit, spread};
use bytes::Bytes;
use millrace_clickhouse::{InsertError, InsertOutcome, QueryError};
use millrace_log::Position;
use millrace_rows::{Micros, Month, RowKey, Table};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use uuid::Uuid;

type RowId = u64;

// === the model of ClickHouse ===

/// What becomes of one insert.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stored,
    StoredAnswerLost,
    NotStoredAnswerLost,
    NotStored,
    /// The server dies after the rows are stored …
    StoredThenCrash,
    /// … or between the token and the rows.
    TokenOnlyThenCrash,
    /// The server fails between the token and the rows, and lives.
    TokenOnlyThenError,
    /// The answer is lost and the insert goes on.
    StillRunning,
}

#[derive(Debug, Default)]
struct State {
    parts: Vec<Vec<RowId>>,
    tokens: HashSet<String>,
    running: Option<(String, Vec<RowId>)>,
    fates: VecDeque<Fate>,
    bad: BTreeSet<RowId>,
    run: u128,
}

#[derive(Clone, Debug, Default)]
struct Server(Arc<Mutex<State>>);

impl State {
    fn commit(&mut self, token: &str, rows: &[RowId]) {
        if self.tokens.insert(token.to_owned()) {
            self.parts.push(rows.to_vec());
        }
    }

    fn finish_running(&mut self) {
        if let Some((token, rows)) = self.running.take() {
            self.commit(&token, &rows);
        }
    }

    fn crash(&mut self) {
        self.running = None;
        self.run += 1;
    }

    fn insert(&mut self, token: &str, rows: &[RowId]) -> Result<(), InsertOutcome> {
        self.finish_running();
        if rows.iter().any(|row| self.bad.contains(row)) {
            return Err(InsertOutcome::BadData);
        }
        let fate = self.fates.pop_front().unwrap_or(Fate::Stored);
        match fate {
            Fate::Stored | Fate::StoredAnswerLost | Fate::StoredThenCrash => {
                self.commit(token, rows);
            }
            Fate::TokenOnlyThenCrash | Fate::TokenOnlyThenError => {
                self.tokens.insert(token.to_owned());
            }
            Fate::StillRunning => self.running = Some((token.to_owned(), rows.to_vec())),
            Fate::NotStored | Fate::NotStoredAnswerLost => {}
        }
        if let Fate::StoredThenCrash | Fate::TokenOnlyThenCrash = fate {
            self.crash();
        }
        match fate {
            Fate::Stored => Ok(()),
            Fate::NotStored => Err(InsertOutcome::NotStored),
            _ => Err(InsertOutcome::Unknown),
        }
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Sink for Server {
    fn tokens_are_atomic(&self) -> bool {
        false
    }

    async fn insert(&self, _: &str, token: &str, blocks: &[Bytes]) -> Result<(), InsertError> {
        let rows: Vec<RowId> = blocks.iter().flat_map(|block| decoded(block)).collect();
        let sent = self.state().insert(token, &rows);
        sent.map_err(|outcome| InsertError {
            outcome,
            code: None,
            message: String::new(),
        })
    }

    async fn any_present(&self, _: Table, _: Month, keys: &[RowKey]) -> Result<bool, QueryError> {
        let state = self.state();
        let stored: HashSet<RowId> = state.parts.iter().flatten().copied().collect();
        Ok(keys.iter().any(|key| stored.contains(&row_of(key))))
    }

    async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let mut state = self.state();
        let is_running = state.running.as_ref().is_some_and(|(of, _)| of == token);
        state.finish_running();
        Ok(is_running)
    }

    async fn server_run(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::from_u128(self.state().run))
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}

fn key_of(row: RowId) -> RowKey {
    RowKey {
        id: Uuid::from_u128(u128::from(row)),
        received_at: Micros(0),
    }
}

fn row_of(key: &RowKey) -> RowId {
    key.id.as_u128() as RowId
}

fn encoded(rows: &[RowId]) -> Bytes {
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    bytes.into()
}

fn decoded(block: &[u8]) -> Vec<RowId> {
    let (rows, _) = block.as_chunks::<8>();
    rows.iter().map(|row| RowId::from_le_bytes(*row)).collect()
}

// === the model of the log and of the process ===

type Rows = Vec<RowId>;

struct World {
    server: Server,
    /// Frames by start: end and sections.
    log: BTreeMap<Position, (Position, Vec<(Key, Rows)>)>,
    end: Position,
    stored: Option<Checkpoint>,
    plan: Plan<Rows>,
    elapsed: Duration,
    rows: RowId,
    aside: BTreeSet<RowId>,
    salts: u32,
}

#[derive(Clone, Debug)]
enum Op {
    /// A frame: per section a key and a number of rows.
    Append(Vec<(u8, u8)>),
    Wait(u16),
    /// Read, plan, store the checkpoint, send so many of the inserts, judge so many of those, and
    /// crash unless all were judged.
    Ship {
        sent: u8,
        judged: u8,
    },
    RestartServer,
    RestartUs,
    LoseCheckpoint,
}

const LIMITS: Limits = Limits {
    rows_target: 12,
    bytes_target: 1 << 20,
    age_recent: Duration::from_millis(100),
    age_old: Duration::from_millis(900),
    in_flight_max: 3,
    sections_max: 20,
};

impl World {
    fn new(fates: Vec<Fate>, bad: BTreeSet<RowId>) -> Self {
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
            blocks: &[encoded(rows)],
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
            Settled::Refused(_) => {
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

    async fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(sections) => self.append(sections),
            Op::Wait(millis) => self.elapsed += Duration::from_millis(u64::from(*millis)),
            Op::Ship { sent, judged } => {
                self.ship(usize::from(*sent), usize::from(*judged), false)
                    .await;
            }
            Op::RestartServer => self.server.state().crash(),
            Op::RestartUs => self.restart_us(),
            Op::LoseCheckpoint => {
                // Cutting sections is beyond what can be found out without the checkpoint, and so
                // is an insert that runs under a name nobody remembers.
                if self.server.state().bad.is_empty() {
                    self.server.state().finish_running();
                    self.stored = None;
                    self.restart_us();
                }
            }
        }
        let low = self.plan.low();
        assert!(self.stored.as_ref().is_none_or(|stored| stored.low <= low));
    }

    async fn drain(&mut self) {
        for _ in 0..10_000 {
            let did_ship = self.ship(usize::MAX, usize::MAX, true).await;
            if !did_ship && self.plan.is_idle() && self.plan.read_to() == self.end {
                return;
            }
        }
        panic!("not drained: {:?}", self.plan);
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Stored),
        1 => Just(Fate::StoredAnswerLost),
        1 => Just(Fate::NotStoredAnswerLost),
        1 => Just(Fate::NotStored),
        1 => Just(Fate::StoredThenCrash),
        1 => Just(Fate::TokenOnlyThenCrash),
        1 => Just(Fate::TokenOnlyThenError),
        1 => Just(Fate::StillRunning),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => prop::collection::vec((0_u8..3, 0_u8..9), 1..4).prop_map(Op::Append),
        2 => (0_u16..1_000).prop_map(Op::Wait),
        6 => (0_u8..5, 0_u8..5).prop_map(|(sent, judged)| Op::Ship { sent, judged }),
        3 => Just(Op::Ship { sent: u8::MAX, judged: u8::MAX }),
        1 => Just(Op::RestartServer),
        1 => Just(Op::RestartUs),
        1 => Just(Op::LoseCheckpoint),
    ]
}

proptest! {
    #[test]
    fn every_row_is_delivered_exactly_once(
        ops in prop::collection::vec(op(), 1..60),
        fates in prop::collection::vec(fate(), 0..40),
        bad in prop::option::weighted(0.4, prop::collection::btree_set(0_u64..120, 0..6)),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new(fates, bad.unwrap_or_default());
            for op in &ops {
                world.apply(op).await;
            }
            world.server.state().fates.clear();
            world.drain().await;
            let state = world.server.state();
            let mut stored: Vec<RowId> = state.parts.iter().flatten().copied().collect();
            stored.extend(&world.aside);
            stored.sort_unstable();
            let all: Vec<RowId> = (0..world.rows).collect();
            assert_eq!(stored, all);
            assert!(world.aside.is_subset(&state.bad));
            assert_eq!(world.plan.low(), world.end);
        });
    }
}
