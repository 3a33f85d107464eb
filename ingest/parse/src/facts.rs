//! What the HTTP layer knows of a request besides its body.

use millrace_rows::{Micros, TeamId};
use std::net::IpAddr;
use uuid::Uuid;

/// What the HTTP layer knows of a request besides its body.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// When the request's head arrived.
    pub received_at: Micros,
    /// What `created_at` of its rows says: the same, but never a time that exports may have passed.
    pub created_at: Micros,
    /// Our number for the request; every row of `rejected_events` it causes carries it.
    pub request_id: Uuid,
    /// Whether the path is `/engage`, where a single object may lack `event` (= `$identify`).
    pub engage: bool,
    /// The query parameter `_`: when the client sent it, in milliseconds (or, below 10^11,
    /// seconds) since 1970. Used when the body has no `sent_at`.
    pub sent_at_query: Option<&'a str>,
    /// `?historical_migration=true`.
    pub historical_query: bool,
    /// `?strict=true`: carried through to [`crate::Parsed`], where the HTTP layer acts on it.
    pub strict: bool,
    /// `?dry_run=true`: carried through likewise.
    pub dry_run: bool,
    /// The client's address, for `$ip`; `None` when it must not be stored.
    pub client_ip: Option<IpAddr>,
    /// Which of the two protocols the path speaks.
    pub protocol: Protocol<'a>,
    /// How much is too much.
    pub limits: Limits,
}

/// Which of the two protocols a path speaks.
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

/// How much is too much in one request.
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

/// What is known of a project key without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    /// The key is this project's.
    Found(Project),
    /// Not known yet: look it up, then parse again ([`crate::ParseError::NeedsKey`]).
    Missing,
    /// Known not to exist.
    Unknown,
}

/// What the parser has to know of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Project {
    /// The number its rows carry.
    pub team_id: TeamId,
    /// Whether clients' addresses are kept out of its events.
    pub anonymize_ips: bool,
    /// Whether it is noted that it has events. Nothing to the parser, which hands it on.
    pub ingested_event: bool,
}
