//! Working directory of the engine's process, which is removed once the engine has started.
//!
//! The engine's function `file`, and the table functions of local files, begin by looking the
//! working directory up, and fail where there is none. Nothing else keeps them from the rows of all
//! projects: this library asks for no grant and checks no path there. The engine itself needs the
//! directory while it starts.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Name of the folder.
const NAME: &str = "working-directory";

/// Folder that this process works in.
pub(crate) struct WorkingDir(PathBuf);

// === impl WorkingDir ===

impl WorkingDir {
    /// Creates a folder in the data directory and makes it the working directory.
    pub(crate) fn enter(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(NAME);
        match fs::create_dir(&path) {
            // A start that was cut off left it.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        std::env::set_current_dir(&path)?;
        Ok(Self(path))
    }

    /// Removes the folder, whatever somebody put into it: then the process has no working
    /// directory.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(self.0)
    }
}
