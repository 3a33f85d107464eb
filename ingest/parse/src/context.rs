//! Context of a request besides its body, as the HTTP layer knows it.

use millrace_rows::{Micros, ProjectId};
use std::net::IpAddr;
use uuid::Uuid;

/// Context in which a body is parsed: all that the HTTP layer knows of its request.
#[derive(Clone, Copy, Debug)]
pub struct ParseContext<'a> {
    /// Time at which the request's head arrived.
    pub received_at: Micros,
    /// `created_at` of its rows: the same, but never a time that exports may have passed.
    pub created_at: Micros,
    /// Our id of the request; every row of `rejected_events` it causes has it.
    pub request_id: Uuid,
    /// True if the path is `/engage`, where a single object may lack `event` (= `$identify`).
    pub engage: bool,
    /// Query parameter `_`: time at which the client sent it, in milliseconds (or, below 10^11,
    /// seconds) since 1970. Used when the body has no `sent_at`.
    pub sent_at_query: Option<&'a str>,
    /// `?historical_migration=true`.
    pub historical_query: bool,
    /// `?strict=true`: carried through to [`crate::Parsed`], where the HTTP layer acts on it.
    pub strict: bool,
    /// `?dry_run=true`: carried through likewise.
    pub dry_run: bool,
    /// Address of the client, for `$ip`; `None` when it must not be stored.
    pub client_ip: Option<IpAddr>,
    /// Protocol of the path.
    pub protocol: Protocol<'a>,
    /// Limits of the request.
    pub limits: Limits,
}

/// Protocol that a path speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol<'a> {
    /// The capture paths: the body's shape decides, and the project key is in the body.
    V0,
    /// `/i/v1/analytics/events`: one shape, results per uuid, and all else in headers.
    V1 {
        /// The project key, from `Authorization: Bearer`.
        key: &'a str,
        /// `PostHog-Request-Timestamp`: when the client sent it, ISO 8601.
        sent_at: Option<&'a str>,
        /// `PostHog-Sdk-Info`, such as `posthog-python/7.91.1`: becomes `$lib`, `$lib_version`.
        sdk_info: Option<&'a str>,
    },
}

/// Limits of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event's JSON; past it that event is `event_too_large`.
    pub event_bytes_max: usize,
    /// Events in a request; past it the request is `too_many_events`.
    pub events_max: usize,
    /// Brackets and braces open at once, the envelope included; past it `json_too_deep`.
    pub depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event_bytes_max: 1 << 20,
            events_max: 50_000,
            depth_max: 128,
        }
    }
}

/// Result of looking a project key up in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    /// The key is this project's.
    Found(Project),
    /// Not known yet: look it up, then parse again ([`crate::ParseError::NeedsKey`]).
    Missing,
    /// Known not to exist.
    Unknown,
}

/// Settings of a project that the parser needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Project {
    /// Id of the project in its rows.
    pub id: ProjectId,
    /// True if clients' addresses are kept out of its events.
    pub anonymize_ips: bool,
    /// True if it is noted that it has events. Not used by the parser, which passes it on.
    pub ingested_event: bool,
}
