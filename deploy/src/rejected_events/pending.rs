//! Request of a resend that is under way, as the catalog keeps it: from before it is sent until its
//! outcome is recorded.
//!
//! A resend that is stopped at any moment leaves its request there. The next one sends it
//! unchanged, so that the server recognises what is stored already, and corrects only the other
//! events.

use super::corrected::CorrectedEvent;
use anyhow::Context;
use millrace_catalog::{RejectedEventResend, UtcTime};
use millrace_clickhouse::RejectedEvent;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Request that is under way.
#[derive(Debug)]
pub struct PendingRequest {
    /// Id of the request.
    pub id: Uuid,
    /// Project of the events.
    pub project_id: i64,
    /// True if the events are part of a historical migration.
    pub historical_migration: bool,
    /// Time at which the request began.
    pub began_at: UtcTime,
    /// The events, of which only the keys are known.
    pub events: Vec<RejectedEvent>,
    /// The events as they were sent.
    jsons: Vec<Box<RawValue>>,
}

/// Identity of a rejected event, and its JSON as it is sent.
#[derive(Deserialize, Serialize)]
struct StoredEvent {
    received_at: i64,
    request_id: String,
    index: u32,
    json: Box<RawValue>,
}

/// Text of a request for the catalog.
///
/// # Errors
/// When the request cannot be written as JSON, which none does.
pub fn text_of(events: &[CorrectedEvent<'_>]) -> anyhow::Result<String> {
    let events = events.iter().map(|corrected| StoredEvent {
        received_at: corrected.event.received_at,
        request_id: corrected.event.request_id.clone(),
        index: corrected.event.index,
        json: corrected.json.clone(),
    });
    Ok(serde_json::to_string(&events.collect::<Vec<_>>())?)
}

impl PendingRequest {
    /// Reads a request of the catalog.
    ///
    /// # Errors
    /// When it is of another version of the program.
    pub fn read(row: &RejectedEventResend) -> anyhow::Result<Self> {
        let stored: Vec<StoredEvent> =
            serde_json::from_str(&row.request).context("a request under way is not readable")?;
        let both = stored.into_iter().map(|it| {
            let event = RejectedEvent {
                team_id: row.team_id,
                received_at: it.received_at,
                request_id: it.request_id,
                index: it.index,
                code: String::new(),
                attr: String::new(),
                detail: String::new(),
                historical_migration: row.historical_migration,
                resent_at: 0,
            };
            (event, it.json)
        });
        let (events, jsons) = both.unzip();
        Ok(Self {
            id: row.id,
            project_id: row.team_id,
            historical_migration: row.historical_migration,
            began_at: row.created_at,
            events,
            jsons,
        })
    }

    /// The events as they were sent.
    #[must_use]
    pub fn corrected(&self) -> Vec<CorrectedEvent<'_>> {
        let both = self.events.iter().zip(&self.jsons);
        both.map(|(event, json)| CorrectedEvent {
            event,
            json: json.clone(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(index: u32) -> RejectedEvent {
        RejectedEvent {
            team_id: 7,
            received_at: 1_700_000_000_000_000,
            request_id: "r".to_owned(),
            index,
            code: "missing_distinct_id".to_owned(),
            attr: String::new(),
            detail: String::new(),
            historical_migration: true,
            resent_at: 0,
        }
    }

    /// Row of the catalog with a request.
    fn row(request: &str) -> RejectedEventResend {
        RejectedEventResend {
            team_id: 7,
            id: Uuid::from_u128(1),
            historical_migration: true,
            request: request.to_owned(),
            created_at: UtcTime(5),
        }
    }

    #[test]
    fn a_pending_request_is_read_as_it_was_sent() {
        let events = [event(0), event(3)];
        let raws = [r#"{ "n": 1.50,"uuid":"a"}"#, r#"{"uuid":"b","s":"\ud800"}"#];
        let corrected: Vec<_> = events
            .iter()
            .zip(raws)
            .map(|(event, raw)| CorrectedEvent {
                event,
                json: RawValue::from_string(raw.to_owned()).unwrap(),
            })
            .collect();
        let request = PendingRequest::read(&row(&text_of(&corrected).unwrap())).unwrap();
        assert_eq!(
            (request.project_id, request.historical_migration),
            (7, true)
        );
        let found: Vec<_> = request
            .corrected()
            .iter()
            .map(|it| (it.event.index, it.json.get().to_owned()))
            .collect();
        assert_eq!(found, [(0, raws[0].to_owned()), (3, raws[1].to_owned())]);
    }

    #[test]
    fn a_request_of_another_version_is_reported() {
        for text in ["", "{}", r#"[{"index":1}]"#] {
            PendingRequest::read(&row(text)).unwrap_err();
        }
    }
}
