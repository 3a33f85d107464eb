//! A ClickHouse without rows that answers inserts as a test says.

use super::sink::Sink;
use millrace_clickhouse::{Body, InsertError, PresenceCount, QueryError};
use millrace_rows::{Month, RowKey, Table};
use std::sync::Arc;
use uuid::Uuid;

/// Sink that reads an insert to its end, then answers with the test's closure.
#[derive(Clone)]
pub(super) struct FakeSink {
    answer: Arc<dyn Fn() -> Result<(), InsertError> + Send + Sync>,
    is_running: Arc<dyn Fn() -> Result<bool, QueryError> + Send + Sync>,
}

impl FakeSink {
    pub(super) fn answering(
        answer: impl Fn() -> Result<(), InsertError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            answer: Arc::new(answer),
            is_running: Arc::new(|| Ok(false)),
        }
    }

    /// FailureHistory with `is_running` when asked for a running insert.
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

    async fn insert<B: Body>(&self, _: &str, _: &str, body: &B) -> Result<(), InsertError> {
        let mut index = 0;
        while body.piece(index).await?.is_some() {
            index += 1;
        }
        (self.answer)()
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
