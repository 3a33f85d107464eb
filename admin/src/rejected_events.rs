//! Rejected events of projects, as the API needs them of whoever reads them and sends them again.
//!
//! The API knows no ClickHouse and no ingest listener, as [`project_queries`] says. Its types are
//! those of the answers.
//!
//! [`project_queries`]: crate::project_queries

use async_trait::async_trait;
use millrace_catalog::{Actor, ChangeError, Page, PageRequest, UtcTime};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// Most events of a resend.
pub const RESEND_EVENTS_MAX: u32 = 1_000;
/// Most bytes of an event's JSON that an answer has.
pub const SHOWN_BYTES_MAX: u64 = 1 << 20;

/// Reads the rejected events of projects, and sends them again.
#[async_trait]
pub trait RejectedEvents: fmt::Debug + Send + Sync {
    /// Page of the selected events, the newest first.
    ///
    /// # Errors
    ///
    /// ClickHouse cannot be asked, or takes too long.
    async fn list(
        &self,
        selection: &RejectedSelection,
        page: PageRequest,
    ) -> Result<Page<RejectedEvent>, RejectedFailure>;

    /// Event of a project with its JSON, of which the first [`SHOWN_BYTES_MAX`] bytes are read;
    /// `None` if there is none.
    ///
    /// # Errors
    ///
    /// As [`RejectedEvents::list`].
    async fn get(
        &self,
        project_id: i64,
        id: RejectedId,
    ) -> Result<Option<RejectedEventText>, RejectedFailure>;

    /// Groups of the selected events by code, the largest first.
    ///
    /// # Errors
    ///
    /// As [`RejectedEvents::list`].
    async fn groups(
        &self,
        selection: &RejectedSelection,
    ) -> Result<Vec<RejectedGroup>, RejectedFailure>;

    /// Changes the newest of the selected events and sends them again, or has them checked.
    ///
    /// # Errors
    ///
    /// Nothing was sent. A resend that ended early has a report that says so.
    async fn resend(&self, actor: &Actor, resend: Resend) -> Result<ResendReport, RejectedFailure>;
}

/// Selection of rejected events; all conditions have to hold.
#[derive(Clone, Debug, Default)]
pub struct RejectedSelection {
    /// Project of the events.
    pub project_id: i64,
    /// Code of the rejection: lower-case letters, digits and `_`.
    pub code: Option<String>,
    /// Earliest time of receipt.
    pub after: Option<UtcTime>,
    /// Time of receipt that all events are earlier than.
    pub before: Option<UtcTime>,
    /// Id of the request.
    pub request_id: Option<Uuid>,
    /// The only events; empty: any.
    pub chosen: Vec<RejectedId>,
    /// True to select only events that were not sent again.
    pub unsent: bool,
}

/// Id of a rejected event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RejectedId {
    /// Id of the request.
    pub request_id: Uuid,
    /// Index in the batch, from 0.
    pub index: u32,
}

/// Rejected event, without its JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RejectedEvent {
    /// Id of the event: that of its request, `_`, and its index in the batch.
    pub id: String,
    /// Id of the request, `X-Request-Id` of its response.
    pub request_id: String,
    /// Index in the batch, from 0.
    pub index: u32,
    /// Time of receipt.
    pub received_at: UtcTime,
    /// Code of the rejection.
    pub code: String,
    /// Part of the event that is at fault; null if it is all of it.
    pub attr: Option<String>,
    /// Reason of the rejection, and how to resolve it.
    pub detail: String,
    /// True if the event was part of a historical migration.
    pub historical_migration: bool,
    /// Time at which the event was last sent again and accepted; null if it was not.
    pub resent_at: Option<UtcTime>,
}

/// Rejected event with its JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RejectedEventWithJson")]
pub struct RejectedEventText {
    /// The event.
    #[serde(flatten)]
    pub event: RejectedEvent,
    /// JSON of the event as it was sent, up to 1 MiB of it.
    pub raw: String,
    /// Length of the JSON as far as it was kept, in bytes.
    pub raw_bytes: u64,
}

/// Rejected events with one code.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RejectedEventGroup")]
pub struct RejectedGroup {
    /// Code of the rejections.
    pub code: String,
    /// Number of events.
    pub events: u64,
    /// Number of events that were not sent again.
    pub unsent: u64,
    /// Earliest time of receipt.
    pub first_received_at: UtcTime,
    /// Latest time of receipt.
    pub last_received_at: UtcTime,
    /// Id of the newest event.
    pub newest_id: String,
    /// Reason of the rejection of the newest event.
    pub newest_detail: String,
}

/// Resend of rejected events.
#[derive(Clone, Debug)]
pub struct Resend {
    /// Selection of the events.
    pub selection: RejectedSelection,
    /// Most events, at most [`RESEND_EVENTS_MAX`]; the newest are chosen.
    pub limit: u32,
    /// Fields that are renamed, first: names as `distinct_id` or `properties.plan`.
    pub rename: Vec<(String, String)>,
    /// Fields that are dropped, then.
    pub drop: Vec<String>,
    /// Fields that are set, at last, with their values.
    pub set: Vec<(String, Value)>,
    /// True to have the server check the events, and send none.
    pub is_dry_run: bool,
}

/// Outcome of a resend.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "RejectedEventResend")]
pub struct ResendReport {
    /// True if the events were checked and none was sent.
    pub dry_run: bool,
    /// Number of events that were selected, however many of them were tried.
    pub selected: u64,
    /// Number of events that were accepted.
    pub accepted: u64,
    /// Number of events that were rejected again, or cannot be sent.
    pub rejected: u64,
    /// Number of chosen events that were not tried: send the request again for them.
    pub not_tried: u64,
    /// Reason why the resend ended early; null if it did not.
    pub stopped: Option<String>,
    /// Events that were tried, with their outcomes.
    pub results: Vec<ResentEvent>,
}

/// Outcome of one event of a resend.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "ResentEvent")]
pub struct ResentEvent {
    /// Id of the event.
    pub id: String,
    /// Outcome of the event: `accepted` events are stored, or would be; `unsendable` ones cannot be
    /// sent, `already_sent` ones were by another request, and `in_doubt` may be stored, which the
    /// next resend of the project settles.
    pub outcome: ResentOutcome,
    /// Reason of the outcome; null of accepted events.
    pub detail: Option<String>,
    /// JSON of the event as it would be sent, of the first ten events of a dry run that have at
    /// most 16 KiB; null of others.
    pub event: Option<String>,
}

/// Outcome of an event that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResentOutcome {
    /// Stored; in a dry run: would be stored.
    Accepted,
    /// Rejected again.
    Rejected,
    /// Cannot be sent.
    Unsendable,
    /// Was sent again meanwhile by another request.
    AlreadySent,
    /// May be stored, as the server did not answer: the next resend of the project settles that.
    InDoubt,
}

/// Reason why there is no answer about rejected events.
#[derive(Clone, Debug)]
pub enum RejectedFailure {
    /// The query takes more time or memory than it may.
    LimitExceeded,
    /// The server accepts no events, for this reason.
    Unsupported(String),
    /// The request of an earlier resend of the project has no answer still.
    InDoubt,
    /// The catalog refuses the resend.
    Change(ChangeError),
    /// ClickHouse or the server cannot be asked; the reason is logged.
    Unavailable,
}

impl From<ChangeError> for RejectedFailure {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl JsonSchema for ResentOutcome {
    fn schema_name() -> Cow<'static, str> {
        "ResentEventOutcome".into()
    }

    // Derived, each value would be a type of its own in generated clients.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "enum": ["accepted", "rejected", "unsendable", "already_sent", "in_doubt"],
        })
    }
}

impl fmt::Display for RejectedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.request_id, self.index)
    }
}

impl FromStr for RejectedId {
    type Err = ();

    /// Parses an id in the one form in which it is written.
    fn from_str(text: &str) -> Result<Self, ()> {
        let (request_id, index) = text.rsplit_once('_').ok_or(())?;
        let id = Self {
            request_id: request_id.parse().map_err(|_| ())?,
            index: index.parse().map_err(|_| ())?,
        };
        (id.to_string() == text).then_some(id).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_one_id() {
        let uuid = "0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f60ab";
        let table = [
            (format!("{uuid}_0"), true),
            (format!("{uuid}_4294967295"), true),
            (format!("{uuid}_4294967296"), false),
            (format!("{uuid}_01"), false),
            (format!("{uuid}_+1"), false),
            (format!("{uuid}_"), false),
            (uuid.to_owned(), false),
            (format!("{}_0", uuid.to_uppercase()), false),
            ("r_0".to_owned(), false),
            (String::new(), false),
        ];
        for (text, is_id) in table {
            let id = text.parse::<RejectedId>();
            assert_eq!(id.map(|id| id.to_string()).ok(), is_id.then_some(text));
        }
    }
}
