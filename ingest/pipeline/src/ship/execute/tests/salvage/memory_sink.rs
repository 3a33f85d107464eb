//! ClickHouse in memory that keeps the rows it is sent.

use crate::ship::sink::Sink;
use millrace_blocks::decompress_into_vec;
use millrace_clickhouse::{Body, EventVersion, InsertError, PlacedKey, PresenceCount, QueryError};
use millrace_rows::testing::events;
use millrace_rows::{Month, RowKey, Table};
use std::sync::{Arc, Mutex, MutexGuard};
use uuid::Uuid;

/// A ClickHouse that keeps the rows it is sent, and restarts when a test says so.
#[derive(Clone, Default)]
pub(super) struct MemorySink(Arc<Mutex<MemorySinkState>>);

#[derive(Default)]
pub(super) struct MemorySinkState {
    rows: Vec<u8>,
    tokens: Vec<String>,
    pub(super) boot_id: u128,
    /// An insert that goes on while its client is gone.
    pub(super) running: Option<(String, Vec<u8>)>,
    /// True if the next insert hangs like that.
    pub(super) hangs: bool,
}

impl MemorySinkState {
    pub(super) fn store(&mut self, token: &str, rows: &[u8]) {
        if !self.tokens.iter().any(|known| known == token) {
            self.tokens.push(token.to_owned());
            self.rows.extend_from_slice(rows);
        }
    }
}

impl MemorySink {
    pub(super) fn state(&self) -> MutexGuard<'_, MemorySinkState> {
        self.0.lock().unwrap()
    }

    pub(super) fn uuids(&self) -> Vec<Uuid> {
        let rows = events(&self.state().rows);
        rows.iter().map(|row| row.uuid).collect()
    }
}

impl Sink for MemorySink {
    fn tokens_are_atomic(&self) -> bool {
        false
    }

    fn is_sharded(&self) -> bool {
        false
    }

    async fn insert<B: Body>(&self, _: &str, token: &str, body: &B) -> Result<(), InsertError> {
        let (mut rows, mut index) = (Vec::new(), 0);
        while let Some(pieces) = body.piece(index).await? {
            for piece in pieces {
                decompress_into_vec(&piece, &mut rows, 1 << 24).unwrap();
            }
            index += 1;
        }
        if std::mem::take(&mut self.state().hangs) {
            self.state().running = Some((token.to_owned(), rows));
            return std::future::pending().await;
        }
        self.state().store(token, &rows);
        Ok(())
    }

    async fn any_present(&self, _: Table, _: Month, keys: &[RowKey]) -> Result<bool, QueryError> {
        let there = self.uuids();
        Ok(keys.iter().any(|key| there.contains(&key.id)))
    }

    async fn count_present(
        &self,
        _: Table,
        _: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        let there = self.uuids();
        let found = keys.iter().filter(|key| there.contains(&key.id)).count() as u64;
        Ok(PresenceCount {
            keys: found,
            rows: found,
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
        if is_running && let Some((token, rows)) = state.running.take() {
            state.store(&token, &rows);
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
