//! The model of ClickHouse.

use crate::ship::sink::Sink;
use bytes::Bytes;
use millrace_clickhouse::{Body, InsertError, InsertOutcome, QueryError};
use millrace_rows::{Micros, Month, RowKey, Table};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

pub(super) type RowId = u64;

/// What becomes of one insert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
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
pub(super) struct State {
    pub(super) parts: Vec<Vec<RowId>>,
    tokens: HashSet<String>,
    running: Option<(String, Vec<RowId>)>,
    pub(super) fates: VecDeque<Fate>,
    pub(super) bad: BTreeSet<RowId>,
    pub(super) run: u128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

impl State {
    fn commit(&mut self, token: &str, rows: &[RowId]) {
        if self.tokens.insert(token.to_owned()) {
            self.parts.push(rows.to_vec());
        }
    }

    pub(super) fn finish_running(&mut self) {
        if let Some((token, rows)) = self.running.take() {
            self.commit(&token, &rows);
        }
    }

    pub(super) fn crash(&mut self) {
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
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Sink for Server {
    fn tokens_are_atomic(&self) -> bool {
        false
    }

    async fn insert<B: Body>(&self, _: &str, token: &str, body: &B) -> Result<(), InsertError> {
        let mut rows: Vec<RowId> = Vec::new();
        let mut index = 0;
        while let Some(chunks) = body.piece(index).await? {
            rows.extend(chunks.iter().flat_map(|chunk| decoded(chunk)));
            index += 1;
        }
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

pub(super) fn key_of(row: RowId) -> RowKey {
    RowKey {
        id: Uuid::from_u128(u128::from(row)),
        received_at: Micros(0),
    }
}

fn row_of(key: &RowKey) -> RowId {
    key.id.as_u128() as RowId
}

pub(super) fn encoded(rows: &[RowId]) -> Bytes {
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    bytes.into()
}

fn decoded(block: &[u8]) -> Vec<RowId> {
    let (rows, _) = block.as_chunks::<8>();
    rows.iter().map(|row| RowId::from_le_bytes(*row)).collect()
}
