//! Reasons for another try, and their report.

use crate::ship::sink::Sink;
use metrics::counter;
use millrace_clickhouse::{InsertError, InsertOutcome, QueryError, QueryErrorKind};

/// Reason for another try of a batch that was not settled; it follows after a pause.
pub enum RetryReason {
    /// The insert failed.
    Insert(InsertError),
    /// A query about the batch failed.
    Query(QueryError),
    /// An earlier try still runs in ClickHouse.
    StillRunning,
}

impl From<QueryError> for RetryReason {
    fn from(error: QueryError) -> Self {
        Self::Query(error)
    }
}

impl RetryReason {
    /// Returns true if nobody could be reached, or only a query failed: trying again soon costs
    /// little. A batch that was sent, and refused by a gateway or cut off, would be sent whole
    /// again.
    pub const fn is_cheap_to_retry(&self) -> bool {
        match self {
            Self::Insert(_) => self.is_unreachable(),
            Self::Query(_) | Self::StillRunning => true,
        }
    }

    /// Returns true if nobody could be reached, so that other batches would fail, too.
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Insert(error) => {
                matches!(error.outcome, InsertOutcome::NotStored) && error.code.is_none()
            }
            Self::Query(error) => {
                matches!(
                    error.kind,
                    QueryErrorKind::NoConnection | QueryErrorKind::Tls(_)
                )
            }
            Self::StillRunning => false,
        }
    }

    /// Returns true if all batches of the table and month would fail. Otherwise the reason may be
    /// of this batch alone: it takes longer than a gateway waits, an earlier try of it still runs,
    /// or the disk does not read it.
    pub const fn affects_whole_month(&self) -> bool {
        match self {
            Self::Insert(error) => matches!(
                error.outcome,
                InsertOutcome::NotStored | InsertOutcome::Misconfigured
            ),
            Self::Query(_) => self.is_unreachable(),
            Self::StillRunning => false,
        }
    }

    /// Counts and logs the reason, of a lane and of a token, and makes tables that are missing.
    pub async fn report<K: Sink>(
        &self,
        sink: &K,
        (lane, token): (&'static str, &str),
        is_logged: bool,
    ) {
        let (outcome, message, is_schema) = match self {
            Self::Insert(error) => (
                error.outcome.name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Self::Query(error) => (
                error.outcome_name(),
                error.to_string(),
                error.schema_is_missing(),
            ),
            Self::StillRunning => (
                "running",
                "an earlier try is still running".to_owned(),
                false,
            ),
        };
        counter!("millrace_insert_retries_total", "lane" => lane, "outcome" => outcome)
            .increment(1);
        if !is_schema {
            if is_logged {
                tracing::warn!(token, outcome, "insert will be tried again: {message}");
            }
            return;
        }
        match sink.migrate().await {
            // At a first start events may come before their tables exist.
            Ok(()) => tracing::info!(
                token,
                "the missing table is created; insert will be tried again"
            ),
            Err(error) => tracing::warn!(
                token,
                "the missing table cannot be created: {error}; insert will be tried again"
            ),
        }
    }
}
