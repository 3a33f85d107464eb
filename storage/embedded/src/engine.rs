//! The running engine: started once per process on one data directory, queried through connections.
//!
//! A connection is a session with its own settings, database and temporary tables, and runs one
//! statement at a time. Opening one costs about 0.4 ms against 1 ms for the smallest query, so each
//! statement gets a fresh one: nothing that a statement sets can leak into the next, and statements
//! run concurrently.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::access::Access;
use crate::backups;
use crate::confinement::{self, SandboxPolicy};
use crate::exception::Exception;
use crate::ffi::{Api, Connection, LoadError, Parameters};
use crate::permitted::{self, EngineFunctions, StatementPolicy};
use crate::{EngineError, EngineOptions};

/// Bytes up to which blocks of one INSERT are joined, so that an insert of up to 1 000 000 rows and
/// 128 MiB is one block and hence one part. Columns take more memory than RowBinary does: 8 bytes
/// more for each string.
const INSERT_BLOCK_BYTES: u64 = 1 << 30;
/// Rows up to which blocks of one INSERT are joined: more than the one million that a client may
/// send.
const INSERT_BLOCK_ROWS: u64 = 1_048_576;

/// The engine of this process.
pub(crate) struct Engine {
    api: Arc<Api>,
    /// Arguments that every connection is opened with.
    arguments: Vec<CString>,
    /// Connection that stays open so that the engine runs from start to shutdown; also used to stop
    /// statements.
    control: Mutex<Option<Connection>>,
    /// Result of `version()`.
    pub(crate) version: String,
    /// Result of `timezone()`.
    pub(crate) timezone: String,
    /// Result of `hostName()`.
    pub(crate) host: String,
    /// Checks the names that statements use.
    pub(crate) policy: StatementPolicy,
    _prepared: PreparedEngine,
}

/// Prerequisites of a start in a confined process: the loaded library and the folders, the only
/// ones it can open.
pub(crate) struct PreparedEngine {
    api: Arc<Api>,
    access: Access,
    /// Lock of the data directory, held while the process lives; it keeps out a second process.
    _lock: File,
}

// === impl PreparedEngine ===

impl PreparedEngine {
    /// Loads the library, creates the folders, and confines this thread and all that it starts to
    /// them, irrevocably.
    pub(crate) fn prepare(options: &EngineOptions) -> Result<Self, EngineError> {
        // Before the folders, so that none is created for an engine that does not exist.
        let path = options.library.clone();
        let api = Api::load(&path).map_err(|error| match error {
            LoadError::Open(source) => EngineError::Library { path, source },
            LoadError::Symbol(missing) => EngineError::Symbol {
                path,
                name: missing.0,
            },
        })?;
        let lock = lock_directory(&options.data_dir)?;
        let mut folders = vec![options.data_dir.as_path()];
        folders.extend(backups::external_dir(options));
        let access = Access::new(&permitted::engines(), &options.sources)
            .map_err(|error| EngineError::Confinement(error.to_string()))?;
        let may_connect = options.sources.iter().any(|source| source.is_remote());
        let policy = SandboxPolicy {
            folders: &folders,
            may_connect,
        };
        let confined = confinement::confine(&policy)
            .map_err(|error| EngineError::Confinement(error.to_string()))?;
        match confined.warning() {
            Some(warning) => tracing::warn!("{warning}"),
            None => tracing::debug!("the process of ClickHouse is confined to its folders"),
        }
        Ok(Self {
            api,
            access,
            _lock: lock,
        })
    }
}

// === impl Engine ===

impl Engine {
    /// Starts the engine on the data directory. Must not run on the process's first thread, which
    /// the engine looks up in `/proc`.
    pub(crate) fn start(
        options: &EngineOptions,
        prepared: PreparedEngine,
    ) -> Result<Self, EngineError> {
        let api = Arc::clone(&prepared.api);
        let arguments = arguments(options, &prepared.access)?;
        let refused = || EngineError::Refused(options.data_dir.clone());
        let mut control = api.connect(&arguments).ok_or_else(refused)?;
        let facts = control
            .query(
                b"SELECT version(), timezone(), hostName()",
                "TabSeparatedRaw",
                &Parameters::default(),
            )
            .map_err(|exception| EngineError::FirstQuery(exception.text))?;
        let facts = String::from_utf8_lossy(&facts.data).trim_end().to_owned();
        let mut facts = facts.split('\t').map(str::to_owned);
        let mut fact = || facts.next().unwrap_or_default();
        let known = engine_functions(&mut control)?;
        Ok(Self {
            policy: StatementPolicy::new(&known, &options.sources),
            version: fact(),
            timezone: fact(),
            host: fact(),
            api,
            arguments,
            control: Mutex::new(Some(control)),
            _prepared: prepared,
        })
    }

    /// Opens a connection.
    pub(crate) fn connection(&self) -> Result<Connection, Exception> {
        self.api.connect(&self.arguments).ok_or_else(|| {
            Exception::new(
                1002,
                "The engine opened no connection; it is shutting down",
                "UNKNOWN_EXCEPTION",
            )
        })
    }

    /// Asks the engine to stop the statements whose `log_comment` begins with `tag`. Returns
    /// without waiting for them.
    pub(crate) fn kill(&self, tag: &str) {
        let parameters = Parameters(vec![("tag".to_owned(), tag.to_owned())]);
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(connection) = control.as_mut() else {
            return;
        };
        let sql =
            b"KILL QUERY WHERE startsWith(Settings['log_comment'], {tag:String}) ASYNC FORMAT Null";
        if let Err(exception) = connection.query(sql, "Null", &parameters) {
            tracing::warn!(error = %exception, "could not stop a statement whose client has gone");
        }
    }

    /// Closes the engine, joining its threads. Returns false if a connection is still open.
    pub(crate) fn shutdown(&self) -> bool {
        self.control
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        self.api.shutdown()
    }
}

/// Lists the names of all functions that the engine has.
fn engine_functions(control: &mut Connection) -> Result<EngineFunctions, EngineError> {
    let mut names = |table: &str| {
        let sql = format!("SELECT name FROM system.{table}");
        let listed = control.query(sql.as_bytes(), "TabSeparatedRaw", &Parameters::default());
        let listed = listed.map_err(|exception| EngineError::FirstQuery(exception.text))?;
        let listed = String::from_utf8_lossy(&listed.data).into_owned();
        Ok::<Vec<_>, EngineError>(listed.lines().map(str::to_owned).collect())
    };
    Ok(EngineFunctions {
        functions: names("functions")?,
        table_functions: names("table_functions")?,
    })
}

/// Arguments of a connection: server options, read when the first connection starts the engine, and
/// query settings, which hold for every connection.
fn arguments(options: &EngineOptions, access: &Access) -> Result<Vec<CString>, EngineError> {
    let memory = options.memory_bytes_max;
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| EngineError::Refused(path.to_owned()))
    };
    let (path, backups) = (text(&options.data_dir)?, text(&options.backup_dir)?);
    let list = [
        "millrace".to_owned(),
        format!("--path={path}"),
        // Otherwise it reads any `config.xml` in the working directory.
        format!("--config-file={}", access.config_path()),
        "--access_control_improvements.table_engines_require_grant=1".to_owned(),
        format!("--backups.allowed_path={backups}"),
        "--timezone=UTC".to_owned(),
        format!("--max_server_memory_usage={memory}"),
        // The caches count towards the cap, and by default each alone may be larger than it.
        format!("--mark_cache_size={}", memory / 16),
        format!("--primary_index_cache_size={}", memory / 16),
        format!("--index_mark_cache_size={}", memory / 64),
        "--uncompressed_cache_size=0".to_owned(),
        "--index_uncompressed_cache_size=0".to_owned(),
        format!("--query_condition_cache_size={}", memory / 64),
        format!("--compiled_expression_cache_size={}", memory / 64),
        // As a server has them; the library's own defaults are those of a command-line tool.
        "--implicit_select=0".to_owned(),
        "--allow_introspection_functions=0".to_owned(),
        "--async_insert=0".to_owned(),
        "--progress=off".to_owned(),
        format!("--max_insert_block_size={INSERT_BLOCK_ROWS}"),
        format!("--min_insert_block_size_rows={INSERT_BLOCK_ROWS}"),
        format!("--min_insert_block_size_bytes={INSERT_BLOCK_BYTES}"),
    ];
    list.into_iter()
        .map(|text| CString::new(text).map_err(|_| EngineError::Refused(options.data_dir.clone())))
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
