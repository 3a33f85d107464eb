//! Embedded ClickHouse: the real engine, loaded from `libchdb.so`, with its own HTTP and native
//! listeners.
//!
//! It runs in a process of its own (`millrace clickhouse`), so a crash of the engine affects
//! neither the log nor the HTTP front, and everything else uses it like any ClickHouse server.
//!
//! # Layout
//! * [`run`]: the process: engine, gate, login server, graceful shutdown
//! * `gate`, `connections`: the listeners that clients connect to, in front of the engine's own
//! * [`find_library`]: path of the engine's library
//! * [`Supervisor`]: keeps that process running, in the parent process; `lines`: reads its output
//! * [`UsersFile`], `cached_users`, `login`: users whose passwords change while the engine runs
//! * [`ReservedAddress`]: addresses that are held while nobody listens there
//! * [`QueryKey`]: passwords by which the program itself logs in for a project
//! * `ffi`: the C interface; the only `unsafe` of the crate
//! * `engine`, `config_xml`, `users_xml`, `profiles`, `names`, `memory_file`: start and
//!   configuration
//! * `console`: the engine's own session, which starts and stops the listeners
//! * `confinement`, `working_dir`: isolation of the process, by the kernel
//! * [`testing`] (feature `testing`): a real engine for the tests of any crate
#![deny(unsafe_code)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;

mod backups;
mod cached_users;
mod config_xml;
mod confinement;
mod connections;
mod console;
mod engine;
mod ffi;
mod gate;
mod library;
mod lines;
mod login;
mod memory_file;
mod names;
mod process_state;
mod profiles;
mod query_key;
mod reserved_address;
mod serve;
mod shards;
mod sources;
mod supervisor;
#[cfg(feature = "testing")]
pub mod testing;
mod users_file;
mod users_xml;
mod working_dir;

pub use confinement::Confinement;
pub use console::print_line;
pub use library::{LibraryError, find_library};
pub use names::{
    ADMIN, ALONE, EXPORT, PROJECT, PROJECT_DATABASE, PROJECT_TOKENS, PROJECT_VIEWS, QUERY, READER,
    VIEWS,
};
pub use process_state::{State, Status};
pub use query_key::QueryKey;
pub use reserved_address::ReservedAddress;
pub use serve::run;
pub use shards::{CLUSTER, ShardAddress, UnknownAddress};
pub use sources::{Source, UnknownSource};
pub use supervisor::{
    EXIT_PERMANENT_FAILURE, Restarter, Supervisor, SupervisorOptions, announce, end_with_parent,
};
pub use users_file::{
    UsersFile, UsersFileError, password_hash, project_password, project_user, token_hash,
};

/// Options of the engine's process.
#[derive(Clone)]
pub struct EngineOptions {
    /// Path of the engine's library, see [`find_library`].
    pub library: PathBuf,
    /// Folder of the tables; created if missing.
    pub data_dir: PathBuf,
    /// Address that clients connect to; port 0 takes a free one, which `on_ready` is given.
    pub listen: SocketAddr,
    /// Port of the native protocol, on the same host; 0 takes a free one. `None`: no such listener.
    pub native_port: Option<u16>,
    /// Port of loopback where the engine itself listens for HTTP, for the program's own
    /// connections; 0 takes a free one.
    pub direct_port: u16,
    /// Name of the server's own user: a name that XML allows, and none of the other users'.
    pub user: String,
    /// Password of that user; never logged.
    pub password: String,
    /// Networks that this user may come from beside loopback, such as `10.0.0.0/8`. Connections
    /// from there have places of their own.
    pub networks: Vec<IpNet>,
    /// Folder of the [`UsersFile`], outside of `data_dir`. `None`: there is only the one user.
    pub users_dir: Option<PathBuf>,
    /// Limit of the engine's memory, bytes; a statement that needs more fails with code 241.
    pub memory_bytes_max: u64,
    /// The one folder that backups are written to and read from; created if missing, unless it is
    /// below `data_dir`. Without a usable folder there are no backups.
    pub backup_dir: PathBuf,
    /// External sources that statements may use.
    pub sources: Vec<Source>,
    /// Native addresses of all shards of the cluster that the engine is one of, in the same order
    /// on each; empty: no cluster.
    pub shards: Vec<ShardAddress>,
    /// True if no process supervises the engine, and gives users of projects their passwords.
    pub is_alone: bool,
}

#[cfg(test)]
impl EngineOptions {
    /// Options for tests of what is made from them.
    fn for_tests() -> Self {
        Self {
            library: PathBuf::new(),
            data_dir: "/data".into(),
            listen: ([127, 0, 0, 1], 0).into(),
            native_port: None,
            direct_port: 0,
            user: "millrace".into(),
            password: "canary of a password".into(),
            networks: Vec::new(),
            users_dir: None,
            memory_bytes_max: 1 << 30,
            backup_dir: "/data/backups".into(),
            sources: Vec::new(),
            shards: Vec::new(),
            is_alone: false,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EngineOptions")
            .field("library", &self.library)
            .field("data_dir", &self.data_dir)
            .field("listen", &self.listen)
            .field("native_port", &self.native_port)
            .field("direct_port", &self.direct_port)
            .field("user", &self.user)
            .field("networks", &self.networks)
            .field("users_dir", &self.users_dir)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .field("backup_dir", &self.backup_dir)
            .field("sources", &self.sources)
            .field("shards", &self.shards)
            .field("is_alone", &self.is_alone)
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
    /// The engine refused to start on that directory, or ended.
    #[error("the ClickHouse engine does not run on {path}: {reason}")]
    Refused {
        /// The directory.
        path: PathBuf,
        /// The engine's own words; it may have written more to standard error.
        reason: String,
    },
    /// The engine's session cannot be set up or followed.
    #[error("cannot direct the ClickHouse engine's session: {0}")]
    Session(std::io::Error),
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
