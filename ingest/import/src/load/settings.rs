//! Settings of an import.

use crate::chunk::ChunkLimits;
use crate::files::SourceFile;
use crate::plan::Plan;
use crate::send::Compression;
use crate::staging::Staging;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of an import.
#[derive(Clone, Debug)]
pub struct Load {
    /// URL of the server, such as `http://127.0.0.1:8000`.
    pub url: String,
    /// Key of the project that gets the events.
    pub project_key: String,
    /// Mapping of the files.
    pub plan: Plan,
    /// The files.
    pub files: Vec<SourceFile>,
    /// A file of rejects whose records are sent again, in place of files.
    pub rejects: Option<PathBuf>,
    /// Folder that keeps the progress.
    pub staging: Staging,
    /// True to discard earlier progress and start again.
    pub is_restart: bool,
    /// Number of files read at once.
    pub files_parallel: usize,
    /// Most requests in flight at once.
    pub requests_parallel: usize,
    /// Compression of bodies; `None` chooses by the server's address.
    pub compression: Option<Compression>,
    /// Time without an accepted request after which the import stops.
    pub give_up_after: Duration,
    /// Limits on the size of chunks and requests.
    pub limits: ChunkLimits,
}
