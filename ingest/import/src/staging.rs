//! The staging folder, by which stages hand over their results.
//!
//! | Path | Content |
//! |---|---|
//! | `data/` | fetched files, one for each part of an export |
//! | `fetched.ndjson` | source and versions of the fetched parts |
//! | `check.json` | findings of the last dry run |
//! | `loads/KEY/journal.ndjson` | progress of the import into a project |
//! | `loads/KEY/rejects.ndjson` | refused records of the import |
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
    /// Opens the folder at a path; creates it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(path).with_context(|| {
            format!(
                "cannot create the folder {}; name another with --staging",
                path.display()
            )
        })?;
        Ok(Self(path.to_owned()))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Folder of the fetched files.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// Path of a file in the folder.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Folder of the import into a project, which may not exist yet.
    #[must_use]
    pub fn load(&self, project_key: &str) -> LoadFolder {
        LoadFolder(self.0.join("loads").join(folder_name(project_key)))
    }

    /// Lists the folders of all imports that were started, in the order of their names.
    ///
    /// # Errors
    /// I/O errors of the disk.
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

    /// Writes a file atomically: after a crash it is the old or the new one.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        write_whole(&self.file(name), |out| Ok(out.write_all(text.as_bytes())?)).map(drop)
    }
}

/// Writes a file atomically: after a crash it is the old or the new one. Returns its length.
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

/// Folder of an import into a project.
#[derive(Clone, Debug)]
pub struct LoadFolder(PathBuf);

impl LoadFolder {
    /// Empties the journal and removes the rejects.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn empty(&self, lock: &Lock) -> anyhow::Result<()> {
        // The journal first: after a crash, rejects without a journal are noticed by the next
        // import, while a journal without its rejects would have lost them.
        lock.empty()?;
        self.remove_rejects()
    }

    /// Removes the files of an import, and the folder if there is nothing else in it.
    ///
    /// # Errors
    /// I/O errors of the disk.
    pub fn remove(&self, lock: &Lock) -> anyhow::Result<()> {
        self.empty(lock)?;
        remove(lock.path())?;
        // Other files in it belong to somebody else, and keep the folder.
        let _ = std::fs::remove_dir(&self.0);
        Ok(())
    }

    fn remove_rejects(&self) -> anyhow::Result<()> {
        let files = [self.rejects(), self.packed_rejects(), self.resending()];
        files.iter().try_for_each(|path| remove(path))
    }

    /// Name of the folder, which is the project key.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.0.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Path of the journal.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join(JOURNAL)
    }

    /// Path of the file of rejects.
    #[must_use]
    pub fn rejects(&self) -> PathBuf {
        self.0.join("rejects.ndjson")
    }

    /// Path of the compressed file of rejects that earlier versions wrote.
    #[must_use]
    pub fn packed_rejects(&self) -> PathBuf {
        self.0.join("rejects.ndjson.gz")
    }

    /// Path of the rejects that are being sent again; it exists until all were sent.
    #[must_use]
    pub fn resending(&self) -> PathBuf {
        self.0.join("resending.ndjson")
    }
}

/// Removes a file if it exists.
fn remove(path: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Makes a folder name of a project key; characters that no key has are replaced.
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
