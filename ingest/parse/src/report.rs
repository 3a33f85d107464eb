//! What comes out of a request: its rows, and what to tell the client of them.

use crate::ApiError;
use millrace_rows::{Batch, TeamId};
use std::borrow::Cow;
use std::fmt;

/// A request that could be read: its rows, and what to tell the client of them.
///
/// When every event was refused, `accepted` is 0 and `batch` still has the rows of
/// `rejected_events`; they are stored, and the client is told 400.
#[derive(Debug)]
pub struct Parsed {
    /// The rows of accepted and of rejected events.
    pub batch: Batch,
    /// Whose they are.
    pub team_id: TeamId,
    /// Events that will be stored in `events`.
    pub accepted: u32,
    /// Which events were refused, and which are stored with a remark.
    pub report: Report,
    /// A hash over all that is stored of the events as sent, if every one came with a uuid: two
    /// requests with the same fingerprint are the same request sent again.
    pub fingerprint: Option<u128>,
    /// One result per event, in order; empty unless the protocol is v1.
    pub results: Vec<EventResult>,
    /// [`crate::Facts::strict`]: with any event rejected, nothing may be stored.
    pub strict: bool,
    /// [`crate::Facts::dry_run`]: nothing may be stored.
    pub dry_run: bool,
}

/// How many rejections, and how many warnings, a report lists; the rest are only counted.
pub const REPORT_ENTRIES_MAX: usize = 100;

/// Which events were refused, and which are stored with a remark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The first [`REPORT_ENTRIES_MAX`] rejections.
    pub rejected: Vec<Rejection>,
    /// All rejections.
    pub rejected_count: u32,
    /// The first [`REPORT_ENTRIES_MAX`] warnings.
    pub warnings: Vec<Warning>,
    /// All warnings.
    pub warning_count: u32,
}

/// One refused event.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rejection {
    /// Its place in the request, from 0.
    pub index: u32,
    /// Which rule it breaks.
    pub code: &'static str,
    /// The same for people, with what to do.
    pub detail: Cow<'static, str>,
    /// Where, such as `batch[7].timestamp`; empty for the whole body, which is `null` in JSON.
    #[serde(serialize_with = "null_if_empty")]
    pub attr: String,
}

fn null_if_empty<S: serde::Serializer>(attr: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match attr {
        "" => serializer.serialize_none(),
        attr => serializer.serialize_some(attr),
    }
}

/// One event stored with a remark.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Warning {
    /// Its place in the request, from 0.
    pub index: u32,
    /// What is odd about it.
    pub code: &'static str,
    /// The same for people, with what to do.
    pub detail: Cow<'static, str>,
}

/// What the v1 protocol says of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventResult {
    /// The event's uuid, spelled as the client spelled it.
    pub uuid: UuidText,
    /// What became of it.
    pub outcome: Outcome,
    /// The code of the rejection or warning.
    pub details: Option<&'static str>,
}

/// What became of one event, in the v1 protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Stored.
    Ok,
    /// Stored, with a remark.
    Warning,
    /// Refused; sending it again would not help.
    Drop,
}

/// The text of a uuid as the client spelled it; ASCII, at most 45 bytes (`urn:uuid:` and 36).
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

    /// The text.
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

/// Why there are no rows.
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
