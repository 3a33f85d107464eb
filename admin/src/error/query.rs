//! Errors of queries in ClickHouse.

use super::ApiError;
use super::clickhouse_detail::ClickHouseDetail;
use crate::project_queries::{ClickHouseError, QueryFailure};
use http::StatusCode;
use http::header::RETRY_AFTER;

/// Seconds until a query may find a slot.
const SLOT_SECONDS: u64 = 5;
/// Seconds until some of a quota of an hour is free again, at most.
const QUOTA_SECONDS: u64 = 3_600;

impl ApiError {
    /// 429: the organization, or all, run as many queries as they may.
    pub(crate) fn too_many_queries(of_organization: usize) -> Self {
        let detail = format!(
            "Too many queries run: an organization may run {of_organization} at a time; wait for one to end, or stop it."
        );
        Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail)
            .with(RETRY_AFTER, SLOT_SECONDS.to_string())
    }

    /// 406: no format that is accepted.
    pub(crate) fn not_acceptable(accepted: &str) -> Self {
        let detail = format!("Accept one of these: {accepted}.");
        Self::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", detail)
    }

    fn of_clickhouse(code: &'static str, prefix: &str, error: ClickHouseError) -> Self {
        let detail = format!("{prefix}{}", error.message);
        let mut answered = Self::invalid(code, Some("query"), detail);
        answered.0.clickhouse = Some(ClickHouseDetail {
            code: error.code,
            name: error.name,
            position: error.position,
        });
        answered
    }
}

impl From<QueryFailure> for ApiError {
    fn from(failure: QueryFailure) -> Self {
        match failure {
            QueryFailure::Refused(error) => Self::of_clickhouse("query_failed", "", error),
            QueryFailure::LimitExceeded(error) => {
                let prefix = "The query takes more than it may: ";
                Self::of_clickhouse("query_limit_exceeded", prefix, error)
            }
            QueryFailure::Stopped => Self::invalid("query_stopped", None, "The query was stopped."),
            QueryFailure::FormatNamed => {
                let detail = "Omit FORMAT: the header Accept names the format of the answer.";
                Self::invalid("invalid_input", Some("query"), detail)
            }
            QueryFailure::IdInUse => {
                let detail = "A query with this id runs already; use a new one.";
                Self::invalid("invalid_input", Some("query_id"), detail)
            }
            QueryFailure::QuotaExceeded => {
                let detail =
                    "The queries of this hour have used up what they may; try again later.";
                Self::new(StatusCode::TOO_MANY_REQUESTS, "throttled", detail)
                    .with(RETRY_AFTER, QUOTA_SECONDS.to_string())
            }
            QueryFailure::Unsupported(reason) => Self::forbidden(reason),
            QueryFailure::Busy | QueryFailure::Unavailable => Self::unavailable(),
        }
    }
}
