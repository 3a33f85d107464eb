//! The model of ClickHouse.

use crate::ship::sink::Sink;
use bytes::Bytes;
use millrace_clickhouse::{
    Body, EventVersion, InsertError, InsertOutcome, PlacedKey, PresenceCount, QueryError,
};
use millrace_rows::{Micros, Month, RowKey, Table};
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

pub(super) type RowId = u64;

/// Number of tokens that are remembered. ClickHouse has 10 000, for all nodes and months of a
/// table.
const TOKENS_MAX: usize = 3;

/// Fate of one insert.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Stored,
    StoredAnswerLost,
    /// Stored, and forgotten: others have sent so much since that the token is gone.
    StoredAndForgotten,
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
    /// The latest tokens of all that were ever sent.
    tokens: VecDeque<String>,
    running: Option<(String, Vec<RowId>)>,
    pub(super) fates: VecDeque<Fate>,
    pub(super) bad: BTreeSet<RowId>,
    /// Rows that have the key of another row of their section.
    pub(super) twins: BTreeMap<RowId, RowId>,
    /// True if bad rows are refused with an exception that does not say so.
    pub(super) is_vague: bool,
    pub(super) boot_id: u128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

impl State {
    pub(super) fn key_of(&self, row: RowId) -> RowKey {
        let named = self.twins.get(&row).copied().unwrap_or(row);
        RowKey {
            id: Uuid::from_u128(u128::from(named)),
            received_at: Micros(0),
            index: None,
        }
    }

    fn stored_keys(&self) -> impl Iterator<Item = RowKey> {
        let stored = self.parts.iter().flatten();
        stored.map(|row| self.key_of(*row))
    }

    fn commit(&mut self, token: &str, rows: &[RowId]) {
        if self.is_new(token) {
            self.parts.push(rows.to_vec());
        }
    }

    fn is_new(&mut self, token: &str) -> bool {
        if self.tokens.iter().any(|known| known == token) {
            return false;
        }
        self.tokens.push_back(token.to_owned());
        if self.tokens.len() > TOKENS_MAX {
            self.tokens.pop_front();
        }
        true
    }

    pub(super) fn finish_running(&mut self) {
        if let Some((token, rows)) = self.running.take() {
            self.commit(&token, &rows);
        }
    }

    pub(super) fn crash(&mut self) {
        self.running = None;
        self.boot_id += 1;
    }

    fn insert(&mut self, token: &str, rows: &[RowId]) -> Result<(), InsertOutcome> {
        self.finish_running();
        if rows.iter().any(|row| self.bad.contains(row)) {
            return Err(if self.is_vague {
                InsertOutcome::Unknown
            } else {
                InsertOutcome::BadData
            });
        }
        let fate = self.fates.pop_front().unwrap_or(Fate::Stored);
        match fate {
            Fate::Stored | Fate::StoredAnswerLost | Fate::StoredThenCrash => {
                self.commit(token, rows);
            }
            Fate::StoredAndForgotten => {
                self.commit(token, rows);
                self.tokens.clear();
            }
            Fate::TokenOnlyThenCrash | Fate::TokenOnlyThenError => {
                self.is_new(token);
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

    fn is_sharded(&self) -> bool {
        false
    }

    async fn insert<B: Body>(&self, _: &str, token: &str, body: &B) -> Result<(), InsertError> {
        let mut rows: Vec<RowId> = Vec::new();
        let mut index = 0;
        while let Some(chunks) = body.piece(index).await? {
            rows.extend(chunks.iter().flat_map(|chunk| decoded(chunk)));
            index += 1;
        }
        let mut state = self.state();
        // FUNCTION_THROW_IF_VALUE_IS_NON_ZERO, as a view answers it.
        let is_vague = state.is_vague && rows.iter().any(|row| state.bad.contains(row));
        let sent = state.insert(token, &rows);
        sent.map_err(|outcome| InsertError {
            outcome,
            code: is_vague.then_some(395),
            message: String::new(),
        })
    }

    async fn any_present(&self, _: Table, _: Month, keys: &[RowKey]) -> Result<bool, QueryError> {
        let state = self.state();
        Ok(state.stored_keys().any(|key| keys.contains(&key)))
    }

    async fn count_present(
        &self,
        _: Table,
        _: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        let state = self.state();
        let wanted: HashSet<&RowKey> = keys.iter().collect();
        assert_eq!(wanted.len(), keys.len(), "the same key twice");
        let found: Vec<RowKey> = state
            .stored_keys()
            .filter(|key| wanted.contains(key))
            .collect();
        let distinct: HashSet<&RowKey> = found.iter().collect();
        Ok(PresenceCount {
            keys: distinct.len() as u64,
            rows: found.len() as u64,
        })
    }

    async fn present_keys(
        &self,
        _: Table,
        _: Month,
        _: &[RowKey],
    ) -> Result<Vec<PlacedKey>, QueryError> {
        Ok(Vec::new())
    }

    async fn are_stored_or_replaced(
        &self,
        _: Month,
        _: &[EventVersion],
    ) -> Result<bool, QueryError> {
        Ok(false)
    }

    async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        let mut state = self.state();
        let is_running = state.running.as_ref().is_some_and(|(of, _)| of == token);
        if is_running {
            // An insert under another token goes on unnoticed.
            state.finish_running();
        }
        Ok(is_running)
    }

    async fn server_boot_id(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::from_u128(self.state().boot_id))
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}

pub(super) fn encoded(rows: &[RowId]) -> Bytes {
    let bytes: Vec<u8> = rows.iter().flat_map(|row| row.to_le_bytes()).collect();
    bytes.into()
}

fn decoded(block: &[u8]) -> Vec<RowId> {
    let (rows, _) = block.as_chunks::<8>();
    rows.iter().map(|row| RowId::from_le_bytes(*row)).collect()
}
