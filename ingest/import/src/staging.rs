//! The staging folder: what stages leave for one another.
//!
//! | Path | Is |
//! |---|---|
//! | `data/` | what was fetched, one file for each part of an export |
//! | `fetched.ndjson` | of what, and which |
//! | `check.json` | the last dry run |
//! | `loads/KEY/journal.ndjson` | how far the import into a project is |
//! | `loads/KEY/rejects.ndjson.gz` | what was refused in it |

use anyhow::Context;
use std::fs::File;
use std::io::Write;
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

    /// The folder of the import into a project, made when it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn load(&self, project_key: &str) -> anyhow::Result<LoadFolder> {
        let folder = self.0.join("loads").join(folder_name(project_key));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        Ok(LoadFolder(folder))
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
        let path = self.file(name);
        let written = || -> std::io::Result<()> {
            let part = self.0.join(format!("{name}.part"));
            let mut file = File::create(&part)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&part, &path)?;
            File::open(&self.0)?.sync_all()
        };
        written().with_context(|| format!("cannot write {}", path.display()))
    }
}

const JOURNAL: &str = "journal.ndjson";

/// What an import into a project leaves.
#[derive(Clone, Debug)]
pub struct LoadFolder(PathBuf);

impl LoadFolder {
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
        self.0.join("rejects.ndjson.gz")
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
