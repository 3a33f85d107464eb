//! Stops a statement whose answer nobody waits for any more.

use crate::ClickHouse;
use tokio::runtime::Handle;

/// Statement that runs until it is known to have ended. Dropped before, it is stopped: a server
/// may not notice that nobody reads any more.
pub(crate) struct RunningQuery {
    clickhouse: ClickHouse,
    query_id: String,
    has_ended: bool,
}

// === impl RunningQuery ===

impl RunningQuery {
    /// Statement that is about to be sent.
    pub(crate) fn new(clickhouse: &ClickHouse, query_id: &str) -> Self {
        Self {
            clickhouse: clickhouse.clone(),
            query_id: query_id.to_owned(),
            has_ended: false,
        }
    }

    /// Records that the statement has ended.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (clickhouse, query_id) = (self.clickhouse.clone(), self.query_id.clone());
        // Ends with the statement, or the deadline of a query.
        runtime.spawn(async move {
            if let Err(error) = clickhouse.stop(&query_id).await {
                tracing::debug!(%error, query_id, "a query that nobody reads could not be stopped");
            }
        });
    }
}
