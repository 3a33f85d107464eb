//! Rejected events for programs, as JSON objects.

use super::selection::sent_again;
use crate::rejected_events::time_text;
use millrace_clickhouse::RejectedEvent;
use serde_json::{Value, json};

/// Event for programs, without the JSON that was sent.
pub(super) fn object(event: &RejectedEvent) -> Value {
    json!({
        "received_at": time_text(event.received_at),
        "project_id": event.team_id,
        "request_id": event.request_id,
        "index": event.index,
        "code": event.code,
        "attr": event.attr,
        "detail": event.detail,
        "historical_migration": event.historical_migration,
        "resent_at": sent_again(event),
    })
}
