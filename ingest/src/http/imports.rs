//! Admission of imports: reserves their events, or builds the refusal.

use crate::core::Core;
use crate::import_quota::ImportRefusal;
use crate::metrics;
use http::StatusCode;
use millrace_parse::{ApiError, ErrorType, Parsed};
use millrace_pipeline::ImportReservation;

/// Advice on how to get more quota.
const HOW_TO_ASK: &str = "Ask for more with POST /api/organizations/<organization id>/historical_migrations/ \
     (source, method, total_events, events_per_minute), and go on when the operator has approved it.";

/// Admits the events that a request wants stored: all or nothing.
pub async fn admit(core: &Core, parsed: &Parsed) -> Result<Option<ImportReservation>, ApiError> {
    if parsed.accepted == 0 {
        return Ok(None);
    }
    let events = u64::from(parsed.accepted);
    let import_quota = &core.shared.deps.import_quota;
    let admitted = import_quota.admit(parsed.team_id, events).await;
    admitted.map(Some).map_err(|refusal| {
        let error = refused(core, refusal);
        metrics::historical_refused(error.code, parsed.accepted);
        error
    })
}

fn refused(core: &Core, refusal: ImportRefusal) -> ApiError {
    match refusal {
        ImportRefusal::FeatureMissing => ApiError::new(
            StatusCode::FORBIDDEN,
            ErrorType::AuthenticationError,
            "payment_required",
            "The organization may not import past events: its plan does not have the feature \
             historical_migrations. Ask the operator for it, or send the events without \
             historical_migration.",
        ),
        ImportRefusal::TooLarge { per_minute } => ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            ErrorType::InvalidRequest,
            "batch_exceeds_rate",
            format!(
                "The request has more events than the project may import in a minute, {per_minute}, so \
                 it would never be taken. Send fewer events per request. {HOW_TO_ASK}"
            ),
        ),
        ImportRefusal::Volume { left } => throttled(
            "migration_volume_exceeded",
            format!(
                "The project may import {left} more events, fewer than the request has; nothing of it \
                 was stored. {HOW_TO_ASK}"
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
        ImportRefusal::Unavailable => core.unavailable(
            "catalog_unavailable",
            "It cannot be looked up at the moment how much the project may import. Send the request \
             again.",
        ),
    }
}

fn throttled(code: &'static str, detail: String) -> ApiError {
    ApiError::new(
        StatusCode::TOO_MANY_REQUESTS,
        ErrorType::ThrottledError,
        code,
        detail,
    )
}
