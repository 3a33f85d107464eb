//! Sessions of the HTTP interface: a connection kept between the requests that name the same id, and with it the
//! temporary tables and SET statements of that client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::Connection;
use crate::request::SessionAsked;

/// Sessions kept at once; one more ends the one that is idle the longest. An idle connection takes some 10 kB.
const SESSIONS_MAX: usize = 1_000;

enum Slot {
    /// A request runs in it; others are refused, as a server does.
    Busy,
    Idle {
        connection: Connection,
        since: Instant,
        timeout: Duration,
    },
}

/// All sessions of the process.
#[derive(Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<String, Slot>>>);

/// The connection a statement runs on, and where it goes afterwards. Dropped without [`Lease::keep`], the session ends.
pub(crate) struct Lease {
    pub(crate) connection: Connection,
    home: Option<Home>,
}

struct Home {
    sessions: Sessions,
    id: String,
    timeout: Duration,
}

// === impl Sessions ===

impl Sessions {
    /// A connection for one statement: the session's if one is named, else a fresh one.
    pub(crate) fn lease(
        &self,
        engine: &Engine,
        asked: Option<&SessionAsked>,
    ) -> Result<Lease, Exception> {
        let Some(asked) = asked else {
            return Ok(Lease {
                connection: engine.connection()?,
                home: None,
            });
        };
        let kept = self.occupy(asked)?;
        let home = Home {
            sessions: self.clone(),
            id: asked.id.clone(),
            timeout: asked.timeout,
        };
        let connection = match kept {
            Some(connection) => connection,
            // `home` frees the place again if this fails.
            None => engine.connection()?,
        };
        Ok(Lease {
            connection,
            home: Some(home),
        })
    }

    /// Marks the session as busy and takes its connection, if it has one already.
    fn occupy(&self, asked: &SessionAsked) -> Result<Option<Connection>, Exception> {
        self.end_expired();
        let mut slots = self.slots();
        if slots.len() >= SESSIONS_MAX && !slots.contains_key(&asked.id) {
            end_longest_idle(&mut slots);
        }
        match slots.entry(asked.id.clone()) {
            Entry::Vacant(_) if asked.must_exist => Err(Exception::new(
                372,
                "Session not found",
                "SESSION_NOT_FOUND",
            )),
            Entry::Vacant(place) => {
                place.insert(Slot::Busy);
                Ok(None)
            }
            Entry::Occupied(mut place) => match place.insert(Slot::Busy) {
                Slot::Idle { connection, .. } => Ok(Some(connection)),
                Slot::Busy => Err(Exception::new(
                    373,
                    &format!("Session {} is locked by a concurrent client", asked.id),
                    "SESSION_IS_LOCKED",
                )),
            },
        }
    }

    /// Ends the sessions whose time is over.
    pub(crate) fn end_expired(&self) {
        self.slots().retain(|_, slot| match slot {
            Slot::Busy => true,
            Slot::Idle { since, timeout, .. } => since.elapsed() < *timeout,
        });
    }

    /// Ends all that are idle, for shutdown.
    pub(crate) fn end_all(&self) {
        self.slots().clear();
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end_longest_idle(slots: &mut HashMap<String, Slot>) {
    let idle = slots.iter().filter_map(|(id, slot)| match slot {
        Slot::Busy => None,
        Slot::Idle { since, .. } => Some((*since, id.clone())),
    });
    if let Some((_, id)) = idle.min() {
        slots.remove(&id);
    }
}

// === impl Lease ===

impl Lease {
    /// Whether the connection serves further requests.
    pub(crate) fn is_session(&self) -> bool {
        self.home.is_some()
    }

    /// Gives the connection back to its session.
    pub(crate) fn keep(self) {
        let Self { connection, home } = self;
        if let Some(home) = home {
            let slot = Slot::Idle {
                connection,
                since: Instant::now(),
                timeout: home.timeout,
            };
            home.sessions.slots().insert(home.id.clone(), slot);
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mut slots = self.sessions.slots();
        if matches!(slots.get(&self.id), Some(Slot::Busy)) {
            slots.remove(&self.id);
        }
    }
}
