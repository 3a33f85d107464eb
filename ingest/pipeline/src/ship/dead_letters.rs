//! Dead letters: rows that ClickHouse cannot read are kept in files, never dropped.
//!
//! Two files per row, named after its position in the log: `….rowbinary`, the row's bytes, and
//! `….json`, their description with the reason. The `.json` is written last: if it exists, both are
//! complete.

use super::section::{InsertKey, SectionPosition};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Extensions of files of bytes: rows, and blocks as they lay in the log.
const EXTENSIONS: [&str; 2] = ["rowbinary", "blocks"];
/// Number of names that are tried for one position.
const NAMES_MAX: u32 = 1_000;

/// Folder of a lane's dead letters.
#[derive(Clone, Debug)]
pub struct DeadLetters(PathBuf);

/// Description that is written beside the bytes.
#[derive(Serialize)]
struct Label<'a> {
    insert_target: &'a str,
    month: u32,
    place: String,
    rows: u64,
    /// `RowBinary`, or `blocks` when the rows could not be unpacked.
    format: &'a str,
    clickhouse_code: Option<u32>,
    reason: &'a str,
}

/// Rows that ClickHouse refuses, with the reason.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub key: InsertKey,
    pub position: SectionPosition,
    /// Index of the first row within the section, from 0.
    pub row: u32,
    pub rows: u64,
    pub bytes: Vec<u8>,
    /// True if `bytes` are rows; else they are ClickHouse blocks as they lay in the log.
    pub is_unpacked: bool,
    pub clickhouse_code: Option<u32>,
    pub reason: String,
}

impl DeadLetters {
    /// The folder at `path`; made when it is first needed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Writes and syncs the files of a dead letter; they survive a power cut once this returns.
    /// Blocks.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub fn write(&self, letter: &DeadLetter) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.0)?;
        let position = letter.position;
        let name = format!(
            "{}-{}-{}-{}-{}",
            letter.key.table_name(),
            position.frame.segment,
            position.frame.offset,
            position.section,
            letter.row,
        );
        let [rows, blocks] = EXTENSIONS;
        let (format, extension) = match letter.is_unpacked {
            true => ("RowBinary", rows),
            false => ("blocks", blocks),
        };
        let label = Label {
            insert_target: &letter.key.insert_target,
            month: letter.key.month.0,
            place: position.to_string(),
            rows: letter.rows,
            format,
            clickhouse_code: letter.clickhouse_code,
            reason: &letter.reason,
        };
        let name = self.free_name(&name, extension, &letter.bytes);
        write_synced(&self.0.join(format!("{name}.{extension}")), &letter.bytes)?;
        let path = self.0.join(format!("{name}.json"));
        write_synced(&path, &serde_json::to_vec_pretty(&label)?)?;
        sync_dir(&self.0)?;
        if let Some(parent) = self.0.parent() {
            sync_dir(parent)?;
        }
        Ok(path)
    }

    /// Returns a name that no other rows or blocks have, since the two share their description:
    /// positions recur in a log folder that is new, or was restored, and rows of a section may be
    /// dead-lettered before all of it is, damaged.
    fn free_name(&self, name: &str, extension: &str, bytes: &[u8]) -> String {
        // A file that cannot be read is there all the same.
        let is_free = |name: &String| {
            EXTENSIONS
                .iter()
                .all(|it| match fs::read(self.0.join(format!("{name}.{it}"))) {
                    Ok(there) => *it == extension && there == bytes,
                    Err(error) => error.kind() == io::ErrorKind::NotFound,
                })
        };
        let others = (2..NAMES_MAX).map(|nth| format!("{name}-{nth}"));
        let mut names = std::iter::once(name.to_owned()).chain(others);
        let free = names.find(is_free);
        free.unwrap_or_else(|| format!("{name}-{}", Uuid::new_v4().simple()))
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_log::Position;
    use millrace_rows::Month;

    fn letter() -> DeadLetter {
        DeadLetter {
            key: InsertKey {
                insert_target: "events(uuid)".into(),
                month: Month(202_611),
            },
            position: SectionPosition {
                frame: Position {
                    segment: 4,
                    offset: 128,
                },
                section: 1,
            },
            row: 7,
            rows: 1,
            bytes: b"row".to_vec(),
            is_unpacked: true,
            clickhouse_code: Some(33),
            reason: "cannot read".to_owned(),
        }
    }

    #[test]
    fn a_dead_letter_keeps_bytes_and_reason_under_its_position_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let letter = letter();
        let dead_letters = DeadLetters::new(dir.path().join("dead-letters"));
        let path = dead_letters.write(&letter).unwrap();
        assert!(
            path.ends_with("dead-letters/events-4-128-1-7.json"),
            "{path:?}"
        );
        let label: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(label["reason"], "cannot read");
        assert_eq!(label["clickhouse_code"], 33);
        assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");

        // Rows of the same position again are the same rows, unless the log is another one.
        assert_eq!(dead_letters.write(&letter).unwrap(), path);
        let bytes = b"other".to_vec();
        let other = dead_letters.write(&DeadLetter { bytes, ..letter }).unwrap();
        assert!(
            other.ends_with("dead-letters/events-4-128-1-7-2.json"),
            "{other:?}"
        );
        assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");
    }

    #[test]
    fn rows_and_blocks_of_one_position_have_a_description_each() {
        for is_unpacked in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let dead_letters = DeadLetters::new(dir.path());
            let first = DeadLetter {
                is_unpacked,
                ..letter()
            };
            let second = DeadLetter {
                is_unpacked: !is_unpacked,
                reason: "damaged".to_owned(),
                ..letter()
            };
            let paths = [&first, &second].map(|it| dead_letters.write(it).unwrap());
            assert_ne!(paths[0], paths[1]);
            for (letter, path) in [&first, &second].into_iter().zip(&paths) {
                let label = fs::read_to_string(path).unwrap();
                assert!(label.contains(&letter.reason), "{label}");
                assert_eq!(dead_letters.write(letter).unwrap(), *path, "written again");
            }
        }
    }
}
