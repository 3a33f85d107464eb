//! Folder of backups. If it cannot be used, everything but backups still works.

use rustix::fs::{Access, access};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::EngineOptions;

/// Advice to the operator about an unusable folder.
const ADVICE: &str = "make it a folder that this user may write to, or name another with clickhouse_backup_dir, then \
    start again; everything but backups works";

/// Backup folder, if it is outside of the engine's data directory and can be opened; created if
/// missing. The engine itself creates one below its data directory when it needs it.
pub(crate) fn external_dir(options: &EngineOptions) -> Option<&Path> {
    let dir = options.backup_dir.as_path();
    if dir.starts_with(&options.data_dir) {
        return None;
    }
    if let Err(error) = create(dir) {
        tracing::warn!(
            "cannot use {} for backups of ClickHouse: {error}; {ADVICE}",
            dir.display()
        );
        return None;
    }
    // Backups may still be read from there.
    if let Err(error) = access(dir, Access::WRITE_OK | Access::EXEC_OK) {
        let error = io::Error::from(error);
        tracing::warn!(
            "cannot write backups of ClickHouse to {}: {error}; {ADVICE}",
            dir.display()
        );
    }
    Some(dir)
}

/// Creates the folder, readable by this user only.
fn create(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn an_unusable_backup_folder_is_left_out() {
        let home = tempfile::tempdir().unwrap();
        let data_dir = home.path().join("clickhouse");
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        let table = [
            (data_dir.join("backups"), false),
            (home.path().join("backups"), true),
            (home.path().join("new/backups"), true),
            (file.clone(), false),
            (file.join("backups"), false),
            (PathBuf::from("/proc/nothing/backups"), false),
        ];
        for (backup_dir, is_used) in table {
            let options = EngineOptions {
                data_dir: data_dir.clone(),
                backup_dir: backup_dir.clone(),
                ..EngineOptions::for_tests()
            };
            let found = external_dir(&options);
            assert_eq!(found.is_some(), is_used, "{}", backup_dir.display());
            assert_eq!(is_used, backup_dir.is_dir(), "{}", backup_dir.display());
        }
    }
}
