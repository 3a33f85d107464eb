//! Folders that a start creates, and removes again if it fails.

use std::fs::{DirBuilder, remove_dir};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Folders that were created, the innermost first.
#[derive(Debug, Default)]
pub struct CreatedDirs(Vec<PathBuf>);

impl CreatedDirs {
    /// Creates a folder, with those above it that are missing, for its owner only.
    ///
    /// # Errors
    /// When one of them cannot be created.
    pub fn create(dir: &Path) -> io::Result<Self> {
        let missing = dir.ancestors().take_while(|dir| !dir.exists());
        let missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir)?;
        Ok(Self(missing))
    }

    /// Returns true if the folder was there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the folders as far as nothing is in them.
    pub fn remove_empty(&self) {
        for dir in &self.0 {
            // Another process may have written to it meanwhile.
            if remove_dir(dir).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn created_folders_are_removed_as_far_as_they_are_empty() {
        let table = [
            (None, true, true),
            (Some("a/b/f"), false, false),
            (Some("a/f"), true, false),
        ];
        for (file, is_b_gone, is_a_gone) in table {
            let home = TempDir::new().unwrap();
            let path = |name: &str| home.path().join(name);
            let created = CreatedDirs::create(&path("a/b")).unwrap();
            assert!(!created.is_empty());
            assert!(CreatedDirs::create(&path("a/b")).unwrap().is_empty());
            if let Some(file) = file {
                std::fs::write(path(file), "").unwrap();
            }
            created.remove_empty();
            assert_eq!(!path("a/b").exists(), is_b_gone, "{file:?}");
            assert_eq!(!path("a").exists(), is_a_gone, "{file:?}");
            assert!(home.path().exists());
        }
    }
}
