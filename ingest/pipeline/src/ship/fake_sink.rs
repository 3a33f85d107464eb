//! A ClickHouse without rows that answers inserts as a test says.

use super::sink::Sink;
use super::source::unpacked;
use millrace_clickhouse::{Body, EventVersion, InsertError, PlacedKey, PresenceCount, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Answer to an insert by its rows.
type Answer = dyn Fn(&[u8]) -> Result<(), InsertError> + Send + Sync;

/// Sink that reads an insert to its end, then answers with the test's closure.
#[derive(Clone)]
pub(super) struct FakeSink {
    answer: Arc<Answer>,
    /// Time after which inserts are answered.
    answers_after: Option<Duration>,
    is_running: Arc<dyn Fn() -> Result<bool, QueryError> + Send + Sync>,
}

impl FakeSink {
    pub(super) fn answering(
        answer: impl Fn() -> Result<(), InsertError> + Send + Sync + 'static,
    ) -> Self {
        Self::answering_by_rows(move |_| answer())
    }

    /// Creates a sink that answers by the rows of an insert.
    pub(super) fn answering_by_rows(
        answer: impl Fn(&[u8]) -> Result<(), InsertError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            answers_after: None,
            is_running: Arc::new(|| Ok(false)),
        }
    }

    /// Answers each insert only after this time.
    pub(super) fn after(self, time: Duration) -> Self {
        Self {
            answers_after: Some(time),
            ..self
        }
    }

    /// Answers with `is_running` when asked for a running insert.
    pub(super) fn asked(
        self,
        is_running: impl Fn() -> Result<bool, QueryError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            is_running: Arc::new(is_running),
            ..self
        }
    }
}

impl Sink for FakeSink {
    fn tokens_are_atomic(&self) -> bool {
        true
    }

    fn is_sharded(&self) -> bool {
        false
    }

    async fn insert<B: Body>(&self, _: &str, _: &str, body: &B) -> Result<(), InsertError> {
        let mut blocks = Vec::new();
        let mut index = 0;
        while let Some(piece) = body.piece(index).await? {
            blocks.extend(piece);
            index += 1;
        }
        if let Some(time) = self.answers_after {
            tokio::time::sleep(time).await;
        }
        (self.answer)(&unpacked(&blocks).unwrap_or_default())
    }

    async fn any_present(&self, _: Table, _: Month, _: &[RowKey]) -> Result<bool, QueryError> {
        Ok(false)
    }

    async fn count_present(
        &self,
        _: Table,
        _: Month,
        _: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        Ok(PresenceCount::default())
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

    async fn insert_is_running(&self, _: &str) -> Result<bool, QueryError> {
        (self.is_running)()
    }

    async fn server_boot_id(&self, _: &str) -> Result<Uuid, QueryError> {
        Ok(Uuid::nil())
    }

    async fn migrate(&self) -> Result<(), String> {
        Ok(())
    }
}
