//! Sessions of a PostgreSQL server that takes no changes any more.
//!
//! A primary that becomes a standby, or an address that moves behind a proxy, leaves sessions that
//! can read and never write again. A pool keeps connections for as long as they answer, so it would
//! keep these until a restart. Once a statement fails in such a session, every connection made
//! before is closed: when it is released, or before its next use. New ones go to whichever server
//! has the address by then.
//!
//! A server may stay read-only for long, while readers are served: so that they do not connect anew
//! at each failure, a failure counts at most once in [`PAUSE`].

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Shortest time between two failures that close connections.
const PAUSE: Duration = Duration::from_secs(1);

/// Time of the last failure that closes connections made before it. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct StaleSessions(Arc<Mutex<Option<Instant>>>);

impl StaleSessions {
    /// Returns true if an error with this code ends a session, or means that the session can only
    /// read.
    pub(crate) fn is_end(code: &str) -> bool {
        matches!(code, "25006" | "57P01" | "57P02" | "57P03")
    }

    /// Notes that a session is of no use any more.
    pub(crate) fn note(&self) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_none_or(|noted| noted.elapsed() >= PAUSE) {
            *noted = Some(Instant::now());
        }
    }

    /// Returns true if a connection of this age was made before the failure.
    pub(crate) fn includes(&self, age: Duration) -> bool {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.is_some_and(|noted| noted.elapsed() < age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn connections_made_before_a_failure_are_closed_and_later_ones_are_kept() {
        let sessions = StaleSessions::default();
        assert!(!sessions.includes(Duration::from_secs(3_600)), "no failure");
        sessions.note();
        assert!(sessions.includes(MILLISECOND));
        tokio::time::advance(PAUSE - MILLISECOND).await;
        // Too soon after the last one: it would close what was connected because of that one.
        sessions.clone().note();
        for (age, is_stale) in [(PAUSE, true), (PAUSE - MILLISECOND * 2, false)] {
            assert_eq!(sessions.includes(age), is_stale, "{age:?}");
        }
        tokio::time::advance(MILLISECOND).await;
        sessions.clone().note();
        assert!(sessions.includes(MILLISECOND));
    }
}
