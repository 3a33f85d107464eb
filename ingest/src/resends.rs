//! Requests that were acknowledged lately, so that one sent again is not stored again.
//!
//! SDKs resend a whole batch, with the same uuids, when an answer was lost. One number per
//! request is kept for ten minutes: best effort, no cost per event. What slips through has the
//! same uuid and is collapsed by the table's engine.

use moka::sync::Cache;
use std::time::Duration;

/// How long a request is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Requests remembered at most; the least lately used go first.
const REQUESTS_MAX: u64 = 500_000;

/// Fingerprints of acknowledged requests, shared by all cores.
#[derive(Clone, Debug)]
pub struct Resends(Cache<u128, ()>);

impl Resends {
    /// No request yet.
    pub fn new() -> Self {
        Self(
            Cache::builder()
                .max_capacity(REQUESTS_MAX)
                .time_to_live(REMEMBERED)
                .build(),
        )
    }

    /// Whether a request with this fingerprint was acknowledged lately.
    pub fn knows(&self, fingerprint: Option<u128>) -> bool {
        fingerprint.is_some_and(|fingerprint| self.0.contains_key(&fingerprint))
    }

    /// Remembers an acknowledged request.
    pub fn remember(&self, fingerprint: Option<u128>) {
        if let Some(fingerprint) = fingerprint {
            self.0.insert(fingerprint, ());
        }
    }
}
