//! Privileges of the engine's one user, enforced by ClickHouse itself: its grants, and settings
//! that nobody may change.
//!
//! Everything in the database is granted, nothing outside of it: no source that the operator did
//! not name, no table engine that `permitted` does not list, no access management, no named
//! collections. Dictionaries are not granted either: the engine reads their sources as SQL. The
//! configuration lies in sealed memory files, so no statement and no other process can change it,
//! and a `config.xml` in the server's working directory is not read.

use std::fmt::Write as _;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::Source;

/// Privileges on everything in the database.
const PRIVILEGES: &str = "SHOW DATABASES, SHOW TABLES, SHOW COLUMNS, SHOW DICTIONARIES, CHECK, SELECT, INSERT, \
    ALTER TABLE, ALTER VIEW, ALTER DATABASE, CREATE DATABASE, CREATE TABLE, CREATE VIEW, CREATE TEMPORARY TABLE, \
    CREATE TEMPORARY VIEW, CREATE FUNCTION, DROP DATABASE, DROP TABLE, DROP VIEW, DROP DICTIONARY, DROP FUNCTION, \
    UNDROP TABLE, TRUNCATE, OPTIMIZE, BACKUP, KILL QUERY, dictGet, SYSTEM MERGES, \
    SYSTEM TTL MERGES, SYSTEM MOVES, SYSTEM CLEANUP, SYSTEM VIEWS, SYSTEM REDUCE BLOCKING PARTS, \
    SYSTEM WAIT LOADING PARTS, SYSTEM LOAD PRIMARY KEY, SYSTEM UNLOAD PRIMARY KEY, SYSTEM FLUSH, \
    SYSTEM DROP CACHE, SYSTEM RELOAD ASYNCHRONOUS METRICS, SYSTEM UNFREEZE";

/// Settings that no statement may change. Their values would be languages other than the SQL that
/// is checked, SQL in a string, paths to read or to write, addresses, or disks elsewhere.
const CONSTANT: [&str; 19] = [
    "dialect",
    "additional_table_filters",
    "additional_result_filter",
    "parallel_replicas_custom_key",
    "allow_experimental_eval_table_function",
    "allow_introspection_functions",
    "output_format_schema",
    "format_schema",
    "format_schema_source",
    "format_template_row",
    "format_template_resultset",
    "format_avro_schema_registry_url",
    "input_format_record_errors_file_path",
    "rename_files_after_processing",
    "dynamic_disk_allow_from_env",
    "dynamic_disk_allow_include",
    "dynamic_disk_allow_from_zk",
    "merge_tree_disk",
    "merge_tree_storage_policy",
];

/// The configuration's two files. They stay open because the engine reads them again while it runs.
pub(crate) struct Access {
    config: OwnedFd,
    _users: OwnedFd,
}

// === impl Access ===

impl Access {
    /// Writes a configuration that grants these table `engines` and these `sources`.
    pub(crate) fn new(engines: &[&str], sources: &[Source]) -> io::Result<Self> {
        let users = sealed("users", &users(engines, sources))?;
        let config = format!(
            "<clickhouse><users_config>{}</users_config></clickhouse>",
            path(&users)
        );
        Ok(Self {
            config: sealed("config", &config)?,
            _users: users,
        })
    }

    /// Path by which the engine opens the configuration.
    pub(crate) fn config_path(&self) -> String {
        path(&self.config)
    }
}

fn path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Writes a sealed, immutable file in memory.
fn sealed(name: &str, text: &str) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = rustix::io::write(&file, rest)?;
        rest = rest.get(count..).unwrap_or_default();
    }
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    Ok(file)
}

fn users(engines: &[&str], sources: &[Source]) -> String {
    let mut grants = format!("<query>GRANT {PRIVILEGES} ON *.*</query>");
    let opened = sources.iter().flat_map(|source| source.engines());
    for engine in engines.iter().chain(opened) {
        let _ = write!(grants, "<query>GRANT TABLE ENGINE ON {engine}</query>");
    }
    for source in sources {
        let _ = write!(
            grants,
            "<query>GRANT READ, WRITE ON {}</query>",
            source.grant()
        );
    }
    let constant = CONSTANT.map(|name| format!("<{name}><const/></{name}>"));
    format!(
        "<clickhouse><profiles><default><constraints>{}</constraints></default></profiles><users><default>\
         <password></password><networks><ip>127.0.0.1</ip><ip>::1</ip></networks><profile>default</profile>\
         <quota>default</quota><grants>{grants}</grants></default></users><quotas><default/></quotas></clickhouse>",
        constant.concat(),
    )
}
