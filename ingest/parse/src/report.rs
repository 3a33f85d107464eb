//! Results of parsing a request: its rows, and the report for the client.

use crate::ApiError;
use millrace_rows::{Batch, ProjectId};
use std::borrow::Cow;
use std::fmt;

/// Request that could be parsed: its rows, and the report for the client.
///
/// When every event was refused, `accepted` is 0 and `batch` still has the rows of
/// `rejected_events`; they are stored, and the client gets a 400.
#[derive(Debug)]
pub struct Parsed {
    /// Rows of accepted and of rejected events.
    pub batch: Batch,
    /// Project of the rows.
    pub project_id: ProjectId,
    /// Events that will be stored in `events`.
    pub accepted: u32,
    /// Rejections and warnings of the events.
    pub report: Report,
    /// Hash over all that is stored of the events as sent, if every one came with a uuid: two
    /// requests with the same fingerprint are the same request sent again.
    pub fingerprint: Option<u128>,
    /// One result per event, in order; empty unless the protocol is v1.
    pub results: Vec<EventResult>,
    /// [`crate::ParseContext::strict`]: with any event rejected, nothing may be stored.
    pub strict: bool,
    /// [`crate::ParseContext::dry_run`]: nothing may be stored.
    pub dry_run: bool,
}

/// Rejections, and warnings, that a report lists; the rest are only counted.
pub const REPORT_ENTRIES_MAX: usize = 100;

/// Rejections and warnings of a request's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// First [`REPORT_ENTRIES_MAX`] rejections.
    pub rejected: Vec<Rejection>,
    /// Number of all rejections.
    pub rejected_count: u32,
    /// First [`REPORT_ENTRIES_MAX`] warnings.
    pub warnings: Vec<Warning>,
    /// Number of all warnings.
    pub warning_count: u32,
}

/// Rejection of one event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rejection {
    /// Index of the event in the request, from 0.
    pub index: u32,
    /// Code of the rule that it breaks.
    pub code: &'static str,
    /// Explanation for people, with what to do.
    pub detail: Cow<'static, str>,
    /// Place, such as `batch[7].timestamp`; empty for the whole body, which is `null` in JSON.
    #[serde(serialize_with = "null_if_empty")]
    pub attr: String,
}

fn null_if_empty<S: serde::Serializer>(attr: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match attr {
        "" => serializer.serialize_none(),
        attr => serializer.serialize_some(attr),
    }
}

/// Warning about one stored event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Index of the event in the request, from 0.
    pub index: u32,
    /// Code of the warning.
    pub code: &'static str,
    /// Explanation for people, with what to do.
    pub detail: Cow<'static, str>,
}

/// Result of one event in the v1 protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventResult {
    /// Uuid of the event, spelled as the client spelled it.
    pub uuid: UuidText,
    /// Outcome of the event.
    pub outcome: Outcome,
    /// Code of the rejection or warning.
    pub details: Option<&'static str>,
}

/// Outcome of one event, in the v1 protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Stored.
    Ok,
    /// Stored, with a warning.
    Warning,
    /// Refused; sending it again would not help.
    Drop,
}

/// Text of a uuid as the client spelled it; ASCII, at most 45 bytes (`urn:uuid:` and 36).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UuidText {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl UuidText {
    /// Bytes of the longest spelling.
    pub const BYTES_MAX: usize = 45;

    /// Keeps a spelling; `None` when it is longer than any spelling of a uuid.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(Self {
            bytes,
            len: u8::try_from(text.len()).ok()?,
        })
    }

    /// Text of the uuid.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for UuidText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

/// Reason why there are no rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The project key is not in the cache: look it up, then parse the same body again.
    NeedsKey(String),
    /// The request as a whole is refused.
    Refused(ApiError),
}

impl From<ApiError> for ParseError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}
