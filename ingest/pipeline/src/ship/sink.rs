//! ClickHouse as delivery needs it; a trait so that the model test can lose answers at will.

use millrace_clickhouse::{
    Body, ClickHouse, EventVersion, Insert, InsertError, PlacedKey, PresenceCount, QueryError,
};
use millrace_rows::{Month, RowKey, Table};
use uuid::Uuid;

/// Destination of rows.
pub trait Sink: Clone + Send + Sync + 'static {
    /// See [`ClickHouse::tokens_are_atomic`].
    fn tokens_are_atomic(&self) -> bool;

    /// See [`ClickHouse::is_sharded`].
    fn is_sharded(&self) -> bool;

    /// See [`ClickHouse::insert`].
    fn insert<B: Body>(
        &self,
        insert_target: &str,
        token: &str,
        body: &B,
    ) -> impl Future<Output = Result<(), InsertError>> + Send;

    /// See [`ClickHouse::any_present`].
    fn any_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> impl Future<Output = Result<bool, QueryError>> + Send;

    /// See [`ClickHouse::count_present`].
    fn count_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> impl Future<Output = Result<PresenceCount, QueryError>> + Send;

    /// See [`ClickHouse::present_keys`].
    fn present_keys(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> impl Future<Output = Result<Vec<PlacedKey>, QueryError>> + Send;

    /// See [`ClickHouse::are_stored_or_replaced`].
    fn are_stored_or_replaced(
        &self,
        month: Month,
        events: &[EventVersion],
    ) -> impl Future<Output = Result<bool, QueryError>> + Send;

    /// See [`ClickHouse::insert_is_running`].
    fn insert_is_running(
        &self,
        token: &str,
    ) -> impl Future<Output = Result<bool, QueryError>> + Send;

    /// See [`ClickHouse::server_boot_id`].
    fn server_boot_id(&self, scope: &str) -> impl Future<Output = Result<Uuid, QueryError>> + Send;

    /// See [`ClickHouse::migrate`]; the error is for the log.
    fn migrate(&self) -> impl Future<Output = Result<(), String>> + Send;
}

impl Sink for ClickHouse {
    fn tokens_are_atomic(&self) -> bool {
        Self::tokens_are_atomic(self)
    }

    fn is_sharded(&self) -> bool {
        Self::is_sharded(self)
    }

    async fn insert<B: Body>(
        &self,
        insert_target: &str,
        token: &str,
        body: &B,
    ) -> Result<(), InsertError> {
        let insert = Insert {
            insert_target,
            token,
            body,
        };
        Self::insert(self, &insert).await
    }

    async fn any_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<bool, QueryError> {
        Self::any_present(self, table, month, keys).await
    }

    async fn count_present(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<PresenceCount, QueryError> {
        Self::count_present(self, table, month, keys).await
    }

    async fn present_keys(
        &self,
        table: Table,
        month: Month,
        keys: &[RowKey],
    ) -> Result<Vec<PlacedKey>, QueryError> {
        Self::present_keys(self, table, month, keys).await
    }

    async fn are_stored_or_replaced(
        &self,
        month: Month,
        events: &[EventVersion],
    ) -> Result<bool, QueryError> {
        Self::are_stored_or_replaced(self, month, events).await
    }

    async fn insert_is_running(&self, token: &str) -> Result<bool, QueryError> {
        Self::insert_is_running(self, token).await
    }

    async fn server_boot_id(&self, scope: &str) -> Result<Uuid, QueryError> {
        Self::server_boot_id(self, scope).await
    }

    async fn migrate(&self) -> Result<(), String> {
        Self::migrate(self).await.map_err(|error| error.to_string())
    }
}
