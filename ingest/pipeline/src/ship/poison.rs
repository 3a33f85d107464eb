//! Rows that ClickHouse cannot read are set aside in files, never dropped.
//!
//! Two files per row, named after its place in the log: `….rowbinary`, the row's bytes, and
//! `….json`, what they are and why they are here. The `.json` is written last: where it is, both
//! are complete.

use super::section::{Key, Place};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The folder of a lane's rows set aside.
#[derive(Clone, Debug)]
pub struct PoisonDir(PathBuf);

/// What is written beside the bytes.
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

/// What is set aside.
#[derive(Clone, Debug)]
pub struct Poison {
    pub key: Key,
    pub place: Place,
    /// The first row within the section, from 0.
    pub row: u32,
    pub rows: u64,
    pub bytes: Vec<u8>,
    /// Whether `bytes` are rows; else ClickHouse blocks as they lay in the log.
    pub is_unpacked: bool,
    pub clickhouse_code: Option<u32>,
    pub reason: String,
}

impl PoisonDir {
    /// The folder; made when it is first needed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Writes and syncs the files of `poison`; survives a power cut once it returns. Blocks.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub fn set_aside(&self, poison: &Poison) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.0)?;
        let place = poison.place;
        let name = format!(
            "{}-{}-{}-{}-{}",
            poison.key.table_name(),
            place.frame.segment,
            place.frame.offset,
            place.section,
            poison.row,
        );
        let (format, extension) = if poison.is_unpacked {
            ("RowBinary", "rowbinary")
        } else {
            ("blocks", "blocks")
        };
        let label = Label {
            insert_target: &poison.key.insert_target,
            month: poison.key.month.0,
            place: place.to_string(),
            rows: poison.rows,
            format,
            clickhouse_code: poison.clickhouse_code,
            reason: &poison.reason,
        };
        let name = self.free_name(name, extension, &poison.bytes);
        write_synced(&self.0.join(format!("{name}.{extension}")), &poison.bytes)?;
        let path = self.0.join(format!("{name}.json"));
        write_synced(&path, &serde_json::to_vec_pretty(&label)?)?;
        sync_dir(&self.0)?;
        if let Some(parent) = self.0.parent() {
            sync_dir(parent)?;
        }
        Ok(path)
    }

    /// A name that no other rows have: places come again in a log folder that is new, or was brought back.
    fn free_name(&self, name: String, extension: &str, bytes: &[u8]) -> String {
        let is_free = |name: &String| {
            let there = fs::read(self.0.join(format!("{name}.{extension}")));
            there.is_err() || there.is_ok_and(|there| there == bytes)
        };
        let others = (2..).map(|nth: u32| format!("{name}-{nth}"));
        let mut names = std::iter::once(name.clone()).chain(others);
        names.find(is_free).unwrap_or(name)
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

    #[test]
    fn bytes_and_reason_are_kept_under_the_place_in_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let poison = Poison {
            key: Key {
                insert_target: "events(uuid)".into(),
                month: Month(202_611),
            },
            place: Place {
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
        };
        let poison_dir = PoisonDir::new(dir.path().join("poison"));
        let path = poison_dir.set_aside(&poison).unwrap();
        assert!(path.ends_with("poison/events-4-128-1-7.json"), "{path:?}");
        let label: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(label["reason"], "cannot read");
        assert_eq!(label["clickhouse_code"], 33);
        assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");

        // What comes from the same place again is the same, unless the log is another one.
        assert_eq!(poison_dir.set_aside(&poison).unwrap(), path);
        let bytes = b"other".to_vec();
        let other = poison_dir.set_aside(&Poison { bytes, ..poison }).unwrap();
        assert!(
            other.ends_with("poison/events-4-128-1-7-2.json"),
            "{other:?}"
        );
        assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");
    }
}
