//! Rejections: every response to a request or connection that may not come in, in one place.
//!
//! The table of who is rejected when is in [`crate::admission`]; a test compares it with this file.
//! Codes are part of the contract with clients: they keep their names, whatever the code calls it.

#[cfg(test)]
mod tests;

use super::month_limiter::{MONTHS_MAX, MonthLimitRefusal};
use crate::import_quota::ImportRefusal;
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use millrace_pipeline::Refusal;
use millrace_rows::counted;

/// Advice on how to get more quota.
const HOW_TO_ASK: &str = "Ask for more with POST /api/organizations/<organization id>/historical_migrations/ \
     (source, method, total_events, events_per_minute), and go on when the operator has approved it.";

/// Reason why a request or a connection may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The process still reads its log.
    Starting,
    /// The process, or the client's address, has as many connections as it may have.
    TooManyConnections,
    /// Want of memory, of a turn in the fair queue, or of a thread for long work.
    Overloaded,
    /// The body as sent is larger than any may be.
    BodyTooLarge {
        /// Bytes that a body may have.
        bytes_max: usize,
    },
    /// The body has more structure than there is ever memory for.
    BodyTooComplex,
    /// The project key is not cached, and the catalog does not answer.
    KeyLookupFailed,
    /// The log or its queue takes no more.
    Pipeline(Refusal),
    /// The project may not import so many events now.
    Import(ImportRefusal),
    /// The project begins too many older months.
    Months(MonthLimitRefusal),
}

// === impl Rejection ===

impl Rejection {
    /// Builds the response; `retry_after_seconds` is for rejections that have no time of their own.
    pub fn into_error(self, retry_after_seconds: u32) -> ApiError {
        let unavailable = |code, detail| ApiError {
            retry_after_seconds: Some(retry_after_seconds),
            ..ApiError::unavailable(code, detail)
        };
        match self {
            Self::Starting => unavailable(
                "starting",
                "The server starts and still reads its log; nothing of the request was stored. Send it again.",
            ),
            Self::TooManyConnections => unavailable(
                "too_many_connections",
                "Too many connections are open. Try again later.",
            ),
            Self::Overloaded => unavailable(
                "overloaded",
                "The server is overloaded. Send the request again.",
            ),
            Self::BodyTooLarge { bytes_max } => too_large(
                "payload_too_large",
                format!(
                    "The body is larger than {bytes_max} bytes. Send fewer events per request, or compress the body."
                ),
            ),
            Self::BodyTooComplex => too_large(
                "body_too_complex",
                "The body has more values than can be read at once. Send fewer events per request."
                    .to_owned(),
            ),
            Self::KeyLookupFailed => unavailable(
                "catalog_unavailable",
                "The project key cannot be looked up at the moment. Send the request again.",
            ),
            Self::Pipeline(refusal) => of_pipeline(refusal, retry_after_seconds),
            Self::Import(refusal) => of_import(refusal, retry_after_seconds),
            Self::Months(refusal) => of_months(refusal),
        }
    }
}

/// Builds the response to a refusal of the log or its queue.
fn of_pipeline(refusal: Refusal, retry_after_seconds: u32) -> ApiError {
    let nothing_stored = || format!("Nothing was stored: {refusal}. Send the request again.");
    let (code, detail) = match refusal {
        Refusal::QueueFull => ("queue_full", nothing_stored()),
        Refusal::LogFull => ("log_full", nothing_stored()),
        Refusal::DiskFull => ("disk_full", nothing_stored()),
        Refusal::ImportLoadShed => ("historical_shed", nothing_stored()),
        Refusal::ShuttingDown => ("shutting_down", nothing_stored()),
        // Of what was written when the disk failed, the next start finds all or nothing.
        Refusal::LogFailed => (
            "log_failed",
            format!(
                "It is not known whether the events were stored: {refusal}. Send the request again; an event \
                 that has a uuid of its own counts once."
            ),
        ),
        Refusal::NotShipped => (
            "not_shipped",
            format!(
                "The events are stored, but not in ClickHouse yet: {refusal}. Events that are sent \
                 again are stored again."
            ),
        ),
        Refusal::TooLarge => {
            return too_large(
                "batch_too_large",
                "The events of the request are larger than can be stored at once; nothing was stored. Send \
                 fewer events per request."
                    .to_owned(),
            );
        }
    };
    ApiError {
        retry_after_seconds: Some(retry_after_seconds),
        ..ApiError::unavailable(code, detail)
    }
}

/// Builds the response to a refusal of the import quota.
fn of_import(refusal: ImportRefusal, retry_after_seconds: u32) -> ApiError {
    match refusal {
        ImportRefusal::FeatureMissing => ApiError::new(
            StatusCode::FORBIDDEN,
            ErrorType::AuthenticationError,
            "payment_required",
            "The organization may not import past events: its plan does not have the feature \
             historical_migrations. Ask the operator for it, or send the events without \
             historical_migration.",
        ),
        ImportRefusal::TooLarge { per_minute } => too_large(
            "batch_exceeds_rate",
            format!(
                "The request has more events than the project may import in a minute, \
                 {per_minute}, so it would never be accepted. Send fewer events per request. \
                 {HOW_TO_ASK}"
            ),
        ),
        ImportRefusal::Volume { left } => throttled(
            "migration_volume_exceeded",
            format!(
                "The project may import {}, fewer than the request has; nothing of it was stored. \
                 {HOW_TO_ASK}",
                counted(left, "more event")
            ),
        ),
        ImportRefusal::Rate {
            retry_after_seconds,
            per_minute,
        } => ApiError {
            retry_after_seconds: Some(retry_after_seconds),
            ..throttled(
                "migration_rate_exceeded",
                format!(
                    "The project may import {per_minute} events a minute; nothing of the request was \
                     stored. Send it again after {retry_after_seconds} s. {HOW_TO_ASK}"
                ),
            )
        },
        ImportRefusal::Unavailable => ApiError {
            retry_after_seconds: Some(retry_after_seconds),
            ..ApiError::unavailable(
                "catalog_unavailable",
                "The import quota of the project cannot be looked up at the moment. Send the \
                 request again.",
            )
        },
    }
}

/// Builds the response to a refusal of the month limiter.
fn of_months(refusal: MonthLimitRefusal) -> ApiError {
    match refusal {
        MonthLimitRefusal::TooMany { months } => too_large(
            "too_many_months",
            format!(
                "The request has events of {months} different past months; nothing was stored. \
                 Send events of at most {MONTHS_MAX} such months in a request."
            ),
        ),
        MonthLimitRefusal::Later {
            retry_after_seconds,
        } => ApiError {
            retry_after_seconds: Some(retry_after_seconds),
            ..ApiError::unavailable(
                "too_many_months",
                "The organization's projects, or those of many others at once, send events of many past months; \
                 nothing of the request was stored. Send it again, and such events in the order of their time.",
            )
        },
    }
}

/// Builds a 413: as it is, the request would be rejected at any other time, too.
fn too_large(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}

/// Builds a 429.
fn throttled(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        ErrorType::ThrottledError,
        code,
        detail,
    )
}
