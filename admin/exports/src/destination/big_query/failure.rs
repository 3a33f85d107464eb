//! Errors of BigQuery that pass, and those that do not.
//!
//! Google's messages may quote rows, so they are examined and never repeated; its reasons do not
//! (docs.cloud.google.com/bigquery/docs/error-messages).

use crate::destination::warehouse::api::ApiResponse;
use crate::error::ExportError;

/// Reasons of refused requests that pass. Limits have the status of missing rights, 403, and those
/// of jobs that of a bad request.
const PASSING: [&str; 9] = [
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "jobRateLimitExceeded",
    "quotaExceeded",
    "backendError",
    "internalError",
    "jobBackendError",
    "jobInternalError",
    "tableUnavailable",
];

/// Beginning of the message about a statement that met others on its table. Its reason is that of a
/// wrong statement.
const CONCURRENT_UPDATE: &str = "Could not serialize access";

/// Reason of a refused request that may succeed later.
pub(super) fn passing_reason(answer: &ApiResponse) -> Option<&'static str> {
    if answer.status.is_success() {
        return None;
    }
    let reason = answer.text("/error/errors/0/reason")?;
    PASSING.into_iter().find(|passing| *passing == reason)
}

/// Error for a job that failed.
pub(super) fn of_job(reason: &str, words: &str) -> ExportError {
    if reason == "invalidQuery" && words.contains(CONCURRENT_UPDATE) {
        let message = "Others changed the table in BigQuery at the same time (concurrent update).";
        return ExportError::retryable(message);
    }
    let message = format!("A job of BigQuery failed ({reason:.40}).");
    match reason {
        // `notFound` may pass: dataset and table were found, so it is the staging table, which an
        // earlier try of the window dropped, as it ended late.
        "invalid" | "invalidQuery" | "accessDenied" | "duplicate" | "blocked"
        | "billingNotEnabled" | "notImplemented" | "responseTooLarge" => {
            ExportError::permanent(message)
        }
        _ => ExportError::retryable(message),
    }
}
