//! The folder of backups. One that cannot be used keeps nothing but backups from working.

use rustix::fs::{Access, access};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use crate::EngineOptions;

/// Advice to the operator.
const ADVICE: &str = "make it a folder that this user may write to, or name another with clickhouse_backup_dir, then \
    start again; everything but backups works";

/// The folder, where it is outside of the engine's own and can be opened; made if it is missing. The engine makes one of
/// its own below its folder when it needs it.
pub(crate) fn outside(options: &EngineOptions) -> Option<&Path> {
    let dir = options.backup_dir.as_path();
    if dir.starts_with(&options.data_dir) {
        return None;
    }
    if let Err(error) = make(dir) {
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

/// Makes the folder, for our eyes only.
fn make(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_folder_that_cannot_be_used_is_left_out() {
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
                library: PathBuf::new(),
                data_dir: data_dir.clone(),
                listen: ([127, 0, 0, 1], 0).into(),
                user: String::new(),
                password: String::new(),
                memory_bytes_max: 0,
                backup_dir: backup_dir.clone(),
                sources: Vec::new(),
            };
            let found = outside(&options);
            assert_eq!(found.is_some(), is_used, "{}", backup_dir.display());
            assert_eq!(is_used, backup_dir.is_dir(), "{}", backup_dir.display());
        }
    }
}
