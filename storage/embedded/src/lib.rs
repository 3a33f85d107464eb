//! Embedded ClickHouse: the real engine, loaded from `libchdb.so`, behind the ClickHouse HTTP
//! interface.
//!
//! It runs in a process of its own (`millrace clickhouse`), so a crash of the engine affects
//! neither the log nor the HTTP front, and everything else uses it like any ClickHouse server.
//!
//! # Layout
//! * [`run`]: the process: engine, listener, graceful shutdown
//! * [`find_library`]: path of the engine's library
//! * [`Supervisor`]: keeps that process running, in the parent process; `lines`: reads its output
//! * `ffi`: the C interface; the only `unsafe` of the crate
//! * `engine`: start, connections, stop
//! * `sql`, `request`, `form`, `auth`: parsing and authentication of a request
//! * `access`, `permitted`, `confinement`: isolation of statements, by the engine, by us, by the
//!   kernel
//! * `insert`, `select`, `statement`, `statement_progress`, `session`: execution of a statement
//! * `connections`, `http`, `response`, `response_body`, `row_stream`: the HTTP server
//! * `held_bytes`, `send_limit`, `statement_slots`: bounds on memory of requests and responses, on
//!   the time to read a response, and on the statements at once, by address
//! * [`testing`] (feature `testing`): a real engine for the tests of any crate
#![deny(unsafe_code)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

mod access;
mod auth;
mod backups;
mod blocks;
mod confinement;
mod connections;
mod engine;
mod exception;
mod ffi;
mod form;
mod held_bytes;
mod http;
mod insert;
mod library;
mod lines;
mod permitted;
mod request;
mod response;
mod response_body;
mod row_stream;
mod select;
mod send_limit;
mod serve;
mod session;
mod sources;
mod sql;
mod statement;
mod statement_progress;
mod statement_slots;
mod stop;
mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
mod upload;

pub use confinement::Confinement;
pub use library::{LibraryError, find_library};
pub use serve::run;
pub use sources::{Source, UnknownSource};
pub use supervisor::{
    EXIT_PERMANENT_FAILURE, State, Status, Supervisor, SupervisorOptions, announce, end_with_parent,
};

/// Options of the engine's process.
#[derive(Clone)]
pub struct EngineOptions {
    /// Path of the engine's library, see [`find_library`].
    pub library: PathBuf,
    /// Folder of the tables; created if missing.
    pub data_dir: PathBuf,
    /// Address to listen on; port 0 takes a free one, which `on_ready` is given.
    pub listen: SocketAddr,
    /// Name of the one user.
    pub user: String,
    /// Password of the user; never logged.
    pub password: String,
    /// Limit of the engine's memory, bytes; a statement that needs more fails with code 241.
    pub memory_bytes_max: u64,
    /// The one folder that backups are written to and read from; created if missing, unless it is
    /// below `data_dir`. Without a usable folder there are no backups.
    pub backup_dir: PathBuf,
    /// External sources that statements may use.
    pub sources: Vec<Source>,
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EngineOptions")
            .field("library", &self.library)
            .field("data_dir", &self.data_dir)
            .field("listen", &self.listen)
            .field("user", &self.user)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("backup_dir", &self.backup_dir)
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

/// Reason the engine's process could not start or had to end, as one sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The library cannot be loaded at all.
    #[error(
        "cannot load the ClickHouse engine {path}: {source}; name another libchdb.so with MILLRACE_LIBCHDB, or run \
         `npm ci --prefix deploy/embedded` (or `make run`) to install it again"
    )]
    Library {
        /// The file tried.
        path: PathBuf,
        /// Error of the loader.
        source: libloading::Error,
    },
    /// The library is of another version.
    #[error(
        "{path} is not the engine version Millrace is made for (it has no `{name}`); name another libchdb.so with \
         MILLRACE_LIBCHDB, or run `npm ci --prefix deploy/embedded`"
    )]
    Symbol {
        /// The file loaded.
        path: PathBuf,
        /// Name of the missing function.
        name: &'static str,
    },
    /// The data directory cannot be created, read or written.
    #[error("cannot use the ClickHouse data directory {path}: {source}")]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// Underlying error.
        source: std::io::Error,
    },
    /// The kernel refused to confine the process.
    #[error("cannot confine the process of ClickHouse to its folders: {0}")]
    Confinement(String),
    /// Another process uses the data directory.
    #[error(
        "the ClickHouse data directory {path} is in use by another process (pid {holder}); stop that one or choose another --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Process id that the other process wrote.
        holder: String,
    },
    /// The engine refused to start on that directory; it wrote the reason to standard error.
    #[error("the ClickHouse engine would not start on {0}; its reason is in the lines above")]
    Refused(PathBuf),
    /// The engine started and then failed its first query.
    #[error("the ClickHouse engine does not work: {0}")]
    FirstQuery(String),
    /// The address is taken or belongs to another machine.
    #[error("cannot listen on {address} for ClickHouse: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Underlying error.
        source: std::io::Error,
    },
    /// The process lacks threads or file descriptors.
    #[error("cannot start the ClickHouse process's runtime: {0}")]
    Runtime(std::io::Error),
}

impl EngineError {
    /// Returns true if every retry fails the same way until somebody changes the installation.
    /// Causes that may pass do not count: a port in use, a full disk, a folder that the engine
    /// refuses for a reason of its own.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Library { .. } | Self::Symbol { .. } => true,
            Self::DataDirectory { source, .. } => matches!(
                source.kind(),
                ErrorKind::PermissionDenied
                    | ErrorKind::NotADirectory
                    | ErrorKind::AlreadyExists
                    | ErrorKind::ReadOnlyFilesystem
            ),
            _ => false,
        }
    }
}
