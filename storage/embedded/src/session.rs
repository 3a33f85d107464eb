//! Sessions of the HTTP interface: a connection kept between the requests with the same session id,
//! and with it the temporary tables and SET statements of that client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::Connection;
use crate::request::SessionRequest;

/// Most sessions kept at once; one more ends the one that is idle the longest. An idle connection
/// takes some 10 kB.
const SESSIONS_MAX: usize = 1_000;

enum SessionSlot {
    /// A request runs in the session; others are refused, as on a server.
    Busy,
    Idle {
        connection: Connection,
        since: Instant,
        timeout: Duration,
    },
}

/// All sessions of the process.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, SessionSlot>>>);

/// Connection that a statement runs on, on loan from its session. Dropping it without
/// [`ConnectionLease::keep`] ends the session.
pub(crate) struct ConnectionLease {
    pub(crate) connection: Connection,
    busy: Option<BusySession>,
}

struct BusySession {
    sessions: Sessions,
    id: String,
    timeout: Duration,
}

// === impl Sessions ===

impl Sessions {
    /// Returns a connection for one statement: the session's if one is named, else a fresh one.
    pub(crate) fn lease(
        &self,
        engine: &Engine,
        session: Option<&SessionRequest>,
    ) -> Result<ConnectionLease, Exception> {
        let Some(session) = session else {
            return Ok(ConnectionLease {
                connection: engine.connection()?,
                busy: None,
            });
        };
        let kept = self.occupy(session)?;
        let busy = BusySession {
            sessions: self.clone(),
            id: session.id.clone(),
            timeout: session.timeout,
        };
        let connection = match kept {
            Some(connection) => connection,
            // If this fails, dropping `busy` removes the session.
            None => engine.connection()?,
        };
        Ok(ConnectionLease {
            connection,
            busy: Some(busy),
        })
    }

    /// Marks the session as busy and takes its connection, if it exists already.
    fn occupy(&self, session: &SessionRequest) -> Result<Option<Connection>, Exception> {
        self.end_expired();
        let mut slots = self.slots();
        if slots.len() >= SESSIONS_MAX && !slots.contains_key(&session.id) {
            end_longest_idle(&mut slots);
        }
        match slots.entry(session.id.clone()) {
            Entry::Vacant(_) if session.must_exist => Err(Exception::new(
                372,
                "Session not found",
                "SESSION_NOT_FOUND",
            )),
            Entry::Vacant(entry) => {
                entry.insert(SessionSlot::Busy);
                Ok(None)
            }
            Entry::Occupied(mut entry) => match entry.insert(SessionSlot::Busy) {
                SessionSlot::Idle { connection, .. } => Ok(Some(connection)),
                SessionSlot::Busy => Err(Exception::new(
                    373,
                    &format!("Session {} is locked by a concurrent client", session.id),
                    "SESSION_IS_LOCKED",
                )),
            },
        }
    }

    /// Ends the sessions whose timeout has passed.
    pub(crate) fn end_expired(&self) {
        self.slots().retain(|_, slot| match slot {
            SessionSlot::Busy => true,
            SessionSlot::Idle { since, timeout, .. } => since.elapsed() < *timeout,
        });
    }

    /// Ends all idle sessions, for shutdown.
    pub(crate) fn end_all(&self) {
        self.slots().clear();
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, SessionSlot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_longest_idle(slots: &mut HashMap<String, SessionSlot>) {
    let idle = slots.iter().filter_map(|(id, slot)| match slot {
        SessionSlot::Busy => None,
        SessionSlot::Idle { since, .. } => Some((*since, id.clone())),
    });
    if let Some((_, id)) = idle.min() {
        slots.remove(&id);
    }
}

// === impl ConnectionLease ===

impl ConnectionLease {
    /// Returns true if the connection belongs to a session.
    pub(crate) fn is_session(&self) -> bool {
        self.busy.is_some()
    }

    /// Returns the connection to its session.
    pub(crate) fn keep(self) {
        let Self { connection, busy } = self;
        if let Some(busy) = busy {
            let slot = SessionSlot::Idle {
                connection,
                since: Instant::now(),
                timeout: busy.timeout,
            };
            busy.sessions.slots().insert(busy.id.clone(), slot);
        }
    }
}

impl Drop for BusySession {
    fn drop(&mut self) {
        let mut slots = self.sessions.slots();
        if matches!(slots.get(&self.id), Some(SessionSlot::Busy)) {
            slots.remove(&self.id);
        }
    }
}
