//! Location of the catalog, and classification of the database's errors.

use crate::error::CatalogError;
use crate::stale_sessions::StaleSessions;
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};
use std::fmt;
use std::io::{self, ErrorKind};

/// Reason for a statement that got no connection: a server that is away makes it wait as well as
/// one that is busy.
const NO_CONNECTION: &str = "no connection to it within 5 s: it is away, or has too much to do";
/// Beginning of the standard library's message for a host name without an address.
const LOOKUP_FAILED: &str = "failed to lookup address";

/// Location of the catalog, for messages: a path, or a server without its password.
#[derive(Clone, Debug)]
pub(crate) struct CatalogLocation {
    pub(crate) name: String,
    /// Told of sessions that an error shows to be of no use any more.
    pub(crate) stale_sessions: StaleSessions,
}

impl fmt::Display for CatalogLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl CatalogLocation {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            stale_sessions: StaleSessions::default(),
        }
    }

    /// Classifies a database error. One that makes a session useless closes the connections of
    /// that time.
    pub(crate) fn error(&self, error: &DbErr) -> CatalogError {
        let location = self.name.clone();
        match error {
            DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) => CatalogError::Unreachable {
                location,
                reason: NO_CONNECTION.to_owned(),
            },
            DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed) => {
                CatalogError::Unreachable {
                    location,
                    reason: "it was closed".to_owned(),
                }
            }
            DbErr::Conn(RuntimeErr::SqlxError(error))
            | DbErr::Exec(RuntimeErr::SqlxError(error))
            | DbErr::Query(RuntimeErr::SqlxError(error)) => self.sqlx_error(error),
            other => CatalogError::Failed {
                location,
                reason: other.to_string(),
            },
        }
    }

    fn sqlx_error(&self, error: &sqlx::Error) -> CatalogError {
        let location = self.name.clone();
        let reason = error.to_string();
        match error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default();
                self.database_error(&code, database.message())
            }
            sqlx::Error::Io(error) => CatalogError::Unreachable {
                location,
                reason: network_reason(error),
            },
            sqlx::Error::PoolTimedOut => CatalogError::Unreachable {
                location,
                reason: NO_CONNECTION.to_owned(),
            },
            sqlx::Error::Tls(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                CatalogError::Unreachable { location, reason }
            }
            _ => CatalogError::Failed { location, reason },
        }
    }

    /// Classifies an error by its code. SQLite's codes are numbers, the kind of error in the lower
    /// byte; PostgreSQL's have five characters.
    fn database_error(&self, code: &str, message: &str) -> CatalogError {
        let location = self.name.clone();
        let reason = message.to_owned();
        let sqlite = (code.len() < 5).then(|| code.parse::<u32>().unwrap_or(0) & 0xff);
        match (sqlite, code) {
            (Some(5 | 6), _) => CatalogError::Locked { location },
            (None, "40P01" | "40001" | "55P03") => CatalogError::Conflict { location, reason },
            (Some(13), _) | (None, "53100") => CatalogError::Full { location },
            (Some(3 | 8 | 14 | 23), _) => CatalogError::CannotOpen { location, reason },
            (Some(11 | 26), _) => CatalogError::Damaged { location, reason },
            (None, "28P01" | "28000" | "42501") => CatalogError::Refused { location, reason },
            (None, "3D000") => CatalogError::NoSuchDatabase { location, reason },
            (None, code) if StaleSessions::is_end(code) => {
                self.stale_sessions.note();
                CatalogError::Unreachable { location, reason }
            }
            (None, "53300") => CatalogError::Unreachable { location, reason },
            _ => CatalogError::Failed { location, reason },
        }
    }
}

/// Words for a failure of the network, with what to do.
fn network_reason(error: &io::Error) -> String {
    let words = error.to_string();
    match error.kind() {
        ErrorKind::ConnectionRefused => format!(
            "nothing listens there ({words}); start PostgreSQL, or correct host and port of the \
             database URL"
        ),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            format!("no network leads there ({words}); correct the host of the database URL")
        }
        _ if words.starts_with(LOOKUP_FAILED) => format!(
            "there is no such host ({words}); correct the host of the database URL, or its entry \
             in DNS"
        ),
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_the_network_is_told_with_its_cause_and_never_as_the_pools() {
        let location = CatalogLocation::new("postgres://db:5432/millrace".to_owned());
        let io = |kind: ErrorKind, words: &str| sqlx::Error::Io(io::Error::new(kind, words));
        let table = [
            (
                io(ErrorKind::ConnectionRefused, "refused"),
                "nothing listens there (refused)",
            ),
            (
                io(ErrorKind::HostUnreachable, "no route"),
                "no network leads there (no route)",
            ),
            (
                io(
                    ErrorKind::Other,
                    "failed to lookup address information: unknown",
                ),
                "there is no such host",
            ),
            (io(ErrorKind::ConnectionReset, "reset"), "millrace: reset"),
            (
                sqlx::Error::PoolTimedOut,
                "it is away, or has too much to do",
            ),
        ];
        for (error, expected) in table {
            let error = DbErr::Conn(RuntimeErr::SqlxError(error.into()));
            let told = location.error(&error);
            assert!(matches!(told, CatalogError::Unreachable { .. }), "{told:?}");
            let told = told.to_string();
            assert!(told.contains(expected) && !told.contains("pool"), "{told}");
        }
    }
}
