//! The embedded ClickHouse: the real engine, loaded from `libchdb.so`, behind the ClickHouse HTTP interface.
//!
//! It runs in a process of its own (`millrace clickhouse`), so that a crash of the engine takes neither the log nor the
//! HTTP front with it, and so that everything else talks to it as to any ClickHouse server.
//!
//! # Layout
//! * [`run`]: the process: engine, listener, graceful end
//! * [`find_library`]: where the engine's library is
//! * [`Supervisor`]: keeps that process running, from the side of the parent
//! * `ffi`: the C interface; the only `unsafe` of the crate
//! * `engine`: start, connections, stop
//! * `sql`, `request`, `form`, `auth`: what a request asks for
//! * `access`, `permitted`, `confinement`: what a statement may not do, by the engine, by us, by the kernel
//! * `insert`, `select`, `statement`, `session`: running it
//! * `connections`, `http`, `answer`: the wire
//! * [`testing`] (feature `testing`): a real engine for the tests of any crate
#![deny(unsafe_code)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

mod access;
mod answer;
mod auth;
mod backups;
mod blocks;
mod confinement;
mod connections;
mod engine;
mod exception;
mod ffi;
mod form;
mod http;
mod insert;
mod library;
mod permitted;
mod request;
mod select;
mod serve;
mod session;
mod sources;
mod sql;
mod statement;
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
    EXIT_HOPELESS, State, Status, Supervisor, SupervisorOptions, announce, end_with_parent,
};

/// What the process needs to know.
#[derive(Clone)]
pub struct EngineOptions {
    /// The engine's library, see [`find_library`].
    pub library: PathBuf,
    /// Where the tables are; made if missing.
    pub data_dir: PathBuf,
    /// Where to listen; port 0 takes a free one, which `on_ready` is told.
    pub listen: SocketAddr,
    /// The one user.
    pub user: String,
    /// Its password; never logged.
    pub password: String,
    /// All memory the engine may use, bytes; a statement that needs more fails with code 241.
    pub memory_bytes_max: u64,
    /// The one folder that backups are written to and read from; made if missing, unless it is below `data_dir`;
    /// without one that can be used there are no backups.
    pub backup_dir: PathBuf,
    /// Ways out of the database that statements may take.
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

/// Why the engine's process could not start or had to end. Each is one sentence for the operator.
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
        /// What the loader says.
        source: libloading::Error,
    },
    /// The library is another version.
    #[error(
        "{path} is not the engine version Millrace is made for (it has no `{name}`); name another libchdb.so with \
         MILLRACE_LIBCHDB, or run `npm ci --prefix deploy/embedded`"
    )]
    Symbol {
        /// The file loaded.
        path: PathBuf,
        /// The function it lacks.
        name: &'static str,
    },
    /// The directory cannot be made, read or written.
    #[error("cannot use the ClickHouse data directory {path}: {source}")]
    DataDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The kernel refuses to confine the process.
    #[error("cannot confine the process of ClickHouse to its folders: {0}")]
    Confinement(String),
    /// Another process has it.
    #[error(
        "the ClickHouse data directory {path} is in use by another process (pid {holder}); stop that one or choose another --data-dir"
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other's process id as it wrote it.
        holder: String,
    },
    /// The engine would not start on that directory; it wrote why to standard error.
    #[error("the ClickHouse engine would not start on {0}; its reason is in the lines above")]
    Refused(PathBuf),
    /// The engine started and then could not answer the simplest question.
    #[error("the ClickHouse engine does not work: {0}")]
    FirstQuery(String),
    /// The address is taken or not ours.
    #[error("cannot listen on {address} for ClickHouse: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The process lacks threads or file descriptors.
    #[error("cannot start the ClickHouse process's runtime: {0}")]
    Runtime(std::io::Error),
}

impl EngineError {
    /// Whether every further try ends the same way until somebody changes the installation. What may
    /// pass is not: a port in use, a full disk, a folder that the engine refuses for a reason of its own.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
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
