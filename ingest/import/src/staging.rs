//! The staging folder: what stages leave for one another.
//!
//! | Path | Is |
//! |---|---|
//! | `data/` | what was fetched, one file for each part of an export |
//! | `fetched.ndjson` | of what, and which |
//! | `check.json` | the last dry run |
//! | `loads/KEY/journal.ndjson` | how far the import into a project is |
//! | `loads/KEY/rejects.ndjson` | what was refused in it |
//! | `loads/KEY/resending.ndjson` | rejects that are being sent again |

use crate::journal::Lock;
use anyhow::Context;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A staging folder.
#[derive(Clone, Debug)]
pub struct Staging(PathBuf);

impl Staging {
    /// The folder at this path, made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path).with_context(|| {
            format!(
                "cannot make the folder {}; name another with --staging",
                path.display()
            )
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where fetched files are.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// A file of the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder of the import into a project, which need not be there.
    #[must_use]
    pub fn load(&self, project_key: &str) -> LoadFolder {
        LoadFolder(self.0.join("loads").join(folder_name(project_key)))
    }

    /// The folders of all imports that were begun, in the order of their names.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn loads(&self) -> anyhow::Result<Vec<LoadFolder>> {
        let folder = self.0.join("loads");
        if !folder.exists() {
            return Ok(Vec::new());
        }
        let mut folders = Vec::new();
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.join(JOURNAL).exists() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders.into_iter().map(LoadFolder).collect())
    }

    /// Writes a file as a whole: it is the old one or the new one after any crash.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_whole(&self.file(name), |out| Ok(out.write_all(text.as_bytes())?)).map(drop)
    }
}

/// Writes a file as a whole: it is the old one or the new one after any crash. Gives its length.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let at = || format!("cannot write {}", path.display());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let mut out = BufWriter::new(File::create(&part).with_context(at)?);
    write(&mut out)?;
    let finished = || -> io::Result<u64> {
        let file = out.into_inner()?;
        file.sync_all()?;
        std::fs::rename(&part, path)?;
        sync_folder_of(path)?;
        Ok(file.metadata()?.len())
    };
    finished().with_context(at)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => File::open(folder)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

const JOURNAL: &str = "journal.ndjson";

/// What an import into a project leaves.
#[derive(Clone, Debug)]
pub struct LoadFolder(PathBuf);

impl LoadFolder {
    /// Forgets all that an import left.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn empty(&self, lock: &Lock) -> anyhow::Result<()> {
        // Rejects without a journal are kept by whoever finds them; a journal without its rejects would have lost them.
        lock.empty()?;
        self.remove_rejects()
    }

    /// Removes what an import left, and the folder if there is nothing else in it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn remove(&self, lock: &Lock) -> anyhow::Result<()> {
        self.empty(lock)?;
        remove(lock.path())?;
        // What else is in it is somebody's.
        let _ = std::fs::remove_dir(&self.0);
        Ok(())
    }

    fn remove_rejects(&self) -> anyhow::Result<()> {
        let files = [self.rejects(), self.packed_rejects(), self.resending()];
        files.iter().try_for_each(|path| remove(path))
    }

    /// Its name, which is the project key.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join(JOURNAL)
    }

    /// The file of rejects.
    #[must_use]
    pub fn rejects(&self) -> PathBuf {
        self.0.join("rejects.ndjson")
    }

    /// The file of rejects as earlier programs wrote it.
    #[must_use]
    pub fn packed_rejects(&self) -> PathBuf {
        self.0.join("rejects.ndjson.gz")
    }

    /// The rejects that are being sent again; there as long as some of them may be left to send.
    #[must_use]
    pub fn resending(&self) -> PathBuf {
        self.0.join("resending.ndjson")
    }
}

/// Removes a file that need not be there.
fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Keys are short and plain; what else was given is no path.
fn folder_name(project_key: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name: String = project_key
        .chars()
        .map(|letter| if plain(letter) { letter } else { '_' })
        .take(80)
        .collect();
    if name.is_empty() {
        "_".to_owned()
    } else {
        name
    }
}
