//! Start of the engine: the library, its folders, its configuration, and the process's sandbox.
//!
//! The engine is its own command-line tool, run inside this process, with the listeners of a
//! server. Its session is directed through [`Console`].

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::backups;
use crate::config_xml::{Addresses, config_xml};
use crate::confinement::{self, SandboxPolicy};
use crate::console::{Console, script};
use crate::ffi::{Api, LoadError};
use crate::memory_file::MemoryFile;
use crate::users_xml::users_xml;
use crate::working_dir::WorkingDir;
use crate::{EngineError, EngineOptions};

/// The engine of a confined process, ready to run.
pub(crate) struct PreparedEngine {
    api: Api,
    arguments: Vec<CString>,
    data_dir: PathBuf,
    /// Files that the arguments name. They are open while the engine runs.
    _files: [MemoryFile; 2],
    /// Lock of the data directory, held while the process lives; it keeps out a second process.
    _lock: File,
}

/// Parts of a prepared process beside the engine.
pub(crate) struct Prepared {
    /// The engine.
    pub(crate) engine: PreparedEngine,
    /// Terminal of its session.
    pub(crate) console: Console,
    /// Working directory, which is removed before anything listens.
    pub(crate) working_dir: WorkingDir,
}

// === impl Prepared ===

impl Prepared {
    /// Loads the library, creates the folders, takes standard input and output for the engine, and
    /// confines this thread and all that it starts to the folders, irrevocably.
    pub(crate) fn new(options: &EngineOptions, addresses: &Addresses) -> Result<Self, EngineError> {
        // Before the folders, so that none is created for an engine that does not exist.
        let api = load(&options.library)?;
        let lock = lock_directory(&options.data_dir)?;
        let unusable = |source| EngineError::DataDirectory {
            path: options.data_dir.clone(),
            source,
        };
        let users = MemoryFile::new("users", &users_xml(options)).map_err(EngineError::Session)?;
        let config = config_xml(options, addresses, &users.path());
        let config = MemoryFile::new("config", &config).map_err(EngineError::Session)?;
        let arguments = arguments(options, addresses, &config)?;
        let mut folders = vec![options.data_dir.as_path()];
        folders.extend(backups::external_dir(options));
        let working_dir = WorkingDir::enter(&options.data_dir).map_err(unusable)?;
        let console = Console::open().map_err(EngineError::Session)?;
        confine(options, addresses, &folders)?;
        Ok(Self {
            engine: PreparedEngine {
                api,
                arguments,
                data_dir: options.data_dir.clone(),
                _files: [users, config],
                _lock: lock,
            },
            console,
            working_dir,
        })
    }
}

// === impl PreparedEngine ===

impl PreparedEngine {
    /// Runs the engine until it ends, which it does by an error only. Must not run on the process's
    /// first thread, which the engine looks up in `/proc`.
    pub(crate) fn run(&self) -> EngineError {
        let reason = self.api.run(&self.arguments).unwrap_or_default();
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        EngineError::Refused {
            path: self.data_dir.clone(),
            reason,
        }
    }
}

fn load(library: &Path) -> Result<Api, EngineError> {
    let path = library.to_owned();
    Api::load(library).map_err(|error| match error {
        LoadError::Open(source) => EngineError::Library { path, source },
        LoadError::Symbol(missing) => EngineError::Symbol {
            path,
            name: missing.0,
        },
    })
}

fn confine(
    options: &EngineOptions,
    addresses: &Addresses,
    folders: &[&Path],
) -> Result<(), EngineError> {
    // What clients connect to is bound already.
    let listen_ports = [Some(addresses.http.port()), addresses.native_port];
    let listen_ports: Vec<u16> = listen_ports.into_iter().flatten().collect();
    let login_port = addresses.login.map(|address| address.port());
    // The gate connects to the engine.
    let connect_ports: Vec<u16> = listen_ports.iter().copied().chain(login_port).collect();
    let policy = SandboxPolicy {
        folders,
        readable: options.users_dir.as_deref(),
        listen_ports: &listen_ports,
        connect_ports: &connect_ports,
        may_connect: options.sources.iter().any(|source| source.is_remote())
            || !options.shards.is_empty(),
    };
    let confined = confinement::confine(&policy)
        .map_err(|error| EngineError::Confinement(error.to_string()))?;
    match confined.warning() {
        Some(warning) => tracing::warn!("{warning}"),
        None => tracing::debug!("the process of ClickHouse is confined to its folders"),
    }
    Ok(())
}

/// Arguments of the command line. With `--interactive` the engine does not abort at the errors of
/// connections; the session never gets as far as asking for input.
fn arguments(
    options: &EngineOptions,
    addresses: &Addresses,
    config: &MemoryFile,
) -> Result<Vec<CString>, EngineError> {
    let refused = |reason: &str| EngineError::Refused {
        path: options.data_dir.clone(),
        reason: reason.to_owned(),
    };
    let no_text = || refused("its path is no text");
    if options.backup_dir.to_str().is_none() {
        return Err(no_text());
    }
    let path = options.data_dir.to_str().ok_or_else(no_text)?;
    let list = [
        "clickhouse".to_owned(),
        format!("--path={path}"),
        format!("--config-file={}", config.path()),
        "--interactive".to_owned(),
        "--disable_suggestion".to_owned(),
        "--progress=off".to_owned(),
        format!("--query={}", script(addresses.native_port.is_some())),
    ];
    list.into_iter()
        .map(|text| CString::new(text).map_err(|_| no_text()))
        .collect()
}

/// Creates the directory if missing and locks it, so that a mistake gives an error of ours before
/// the engine starts. The sandbox does not apply yet, so a link is not followed: whoever took over
/// an engine could have made one to a file outside, which would be overwritten here.
fn lock_directory(directory: &Path) -> Result<File, EngineError> {
    let unusable = |source| EngineError::DataDirectory {
        path: directory.to_owned(),
        source,
    };
    fs::create_dir_all(directory).map_err(unusable)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let mut file = options
        .open(directory.join("millrace.lock"))
        .map_err(unusable)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut holder = String::new();
        file.read_to_string(&mut holder).map_err(unusable)?;
        return Err(EngineError::Locked {
            path: directory.to_owned(),
            holder: holder.trim().to_owned(),
        });
    }
    file.set_len(0).map_err(unusable)?;
    writeln!(file, "{}", std::process::id()).map_err(unusable)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_the_lock_leaves_its_target_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let (data_dir, secret) = (home.path().join("clickhouse"), home.path().join("secret"));
        drop(lock_directory(&data_dir).unwrap());
        fs::write(&secret, "canary").unwrap();
        fs::remove_file(data_dir.join("millrace.lock")).unwrap();
        std::os::unix::fs::symlink(&secret, data_dir.join("millrace.lock")).unwrap();
        let error = lock_directory(&data_dir).unwrap_err();
        assert!(
            matches!(error, EngineError::DataDirectory { .. }),
            "{error}"
        );
        assert_eq!(fs::read_to_string(secret).unwrap(), "canary");
    }
}
