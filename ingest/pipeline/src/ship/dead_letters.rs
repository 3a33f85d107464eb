//! Dead letters: rows that ClickHouse cannot read are kept in files, never dropped.
//!
//! Two files per row, named after the log's salt and the position in it: `….rowbinary`, the row's
//! bytes, and `….json`, their description with the reason. The `.json` is written last: if it
//! exists, both are complete. Names of earlier versions have no salt.

use super::section::{InsertKey, SectionPosition};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Extensions of files of bytes: rows, and blocks as they lay in the log.
const EXTENSIONS: [&str; 2] = ["rowbinary", "blocks"];
/// Number of names that are tried for one position.
const NAMES_MAX: u32 = 1_000;
/// Digits of a salt in a name.
const SALT_DIGITS: usize = 8;
/// Numbers of a place in a name.
const PLACE_NUMBERS: usize = 4;

/// Folder of a lane's dead letters.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    path: PathBuf,
    /// Salt of the log, as in its tokens: positions recur in a log that is new.
    salt: u32,
    /// Hashes of the places in names that only a search finds, as they were at the first dead
    /// letter: none comes later. A search of a million files for each letter would hold up its
    /// lane.
    searched: Arc<OnceLock<HashSet<u64>>>,
}

/// State of a name for the bytes of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameState {
    Free,
    /// Name that has these bytes.
    Same,
    /// Name that has other bytes.
    Taken,
}

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
    /// The folder at `path`, of a log with this salt; made when it is first needed.
    pub fn new(path: impl Into<PathBuf>, salt: u32) -> Self {
        Self {
            path: path.into(),
            salt,
            searched: Arc::default(),
        }
    }

    /// Writes and syncs the files of a dead letter; they survive a power cut once this returns.
    /// Blocks.
    ///
    /// # Errors
    /// If the disk does not take them.
    pub fn write(&self, letter: &DeadLetter) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.path)?;
        let [rows, blocks] = EXTENSIONS;
        let (format, extension) = match letter.is_unpacked {
            true => ("RowBinary", rows),
            false => ("blocks", blocks),
        };
        let label = Label {
            insert_target: &letter.key.insert_target,
            month: letter.key.month.0,
            place: letter.position.to_string(),
            rows: letter.rows,
            format,
            clickhouse_code: letter.clickhouse_code,
            reason: &letter.reason,
        };
        let name = match self.kept_name(letter, extension)? {
            Some(name) => name,
            None => self.free_name(letter, extension),
        };
        write_synced(&self.file(&name, extension), &letter.bytes)?;
        let path = self.file(&name, "json");
        write_synced(&path, &serde_json::to_vec_pretty(&label)?)?;
        sync_dir(&self.path)?;
        if let Some(parent) = self.path.parent() {
            sync_dir(parent)?;
        }
        Ok(path)
    }

    /// Returns the name that these rows or blocks have already: from before a crash, by an earlier
    /// version, or by a start before the checkpoint with another salt was lost.
    fn kept_name(&self, letter: &DeadLetter, extension: &str) -> io::Result<Option<String>> {
        if !self.may_be_kept(letter)? {
            return Ok(None);
        }
        for entry in fs::read_dir(&self.path)? {
            let file = entry?.file_name();
            let name = file.to_str().and_then(|it| it.strip_suffix(extension));
            let Some(name) = name.and_then(|it| it.strip_suffix('.')) else {
                continue;
            };
            if letter.may_have(name)
                && self.state(name, extension, &letter.bytes) == NameState::Same
            {
                return Ok(Some(name.to_owned()));
            }
        }
        Ok(None)
    }

    /// Returns true if the letter may have a name that is not tried first.
    fn may_be_kept(&self, letter: &DeadLetter) -> io::Result<bool> {
        let searched = match self.searched.get() {
            Some(searched) => searched,
            None => {
                let found = self.searched_places()?;
                self.searched.get_or_init(|| found)
            }
        };
        Ok(searched.contains(&hash(&letter.place())))
    }

    /// Hashes of the places in all names but those that are tried first.
    fn searched_places(&self) -> io::Result<HashSet<u64>> {
        let own = format!("-{:0SALT_DIGITS$x}-", self.salt);
        let mut places = HashSet::new();
        for entry in fs::read_dir(&self.path)? {
            let file = PathBuf::from(entry?.file_name());
            let extension = file.extension().and_then(OsStr::to_str);
            let name = file.file_stem().and_then(OsStr::to_str);
            let (Some(name), Some(extension)) = (name, extension) else {
                continue;
            };
            let place = name.split_once(&own).map(|(_, place)| place);
            let is_first = place.is_some_and(|place| place.split('-').count() == PLACE_NUMBERS);
            if EXTENSIONS.contains(&extension) && !is_first {
                places.extend(places_in(name));
            }
        }
        Ok(places)
    }

    /// Returns a name that no other rows or blocks have, since the two share their description: a
    /// copy of the log folder has its positions and its salt, and rows of a section may be
    /// dead-lettered before all of it is, damaged.
    fn free_name(&self, letter: &DeadLetter, extension: &str) -> String {
        let name = format!(
            "{}-{:0SALT_DIGITS$x}-{}",
            letter.key.table_name(),
            self.salt,
            letter.place()
        );
        let others = (2..NAMES_MAX).map(|nth| format!("{name}-{nth}"));
        let mut names = std::iter::once(name.clone()).chain(others);
        let free = names.find(|it| self.state(it, extension, &letter.bytes) != NameState::Taken);
        free.unwrap_or_else(|| format!("{name}-{}", Uuid::new_v4().simple()))
    }

    fn state(&self, name: &str, extension: &str, bytes: &[u8]) -> NameState {
        let mut state = NameState::Free;
        for it in EXTENSIONS {
            match fs::read(self.file(name, it)) {
                Ok(there) if it == extension && there == bytes => state = NameState::Same,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // A file that cannot be read is there all the same.
                Ok(_) | Err(_) => return NameState::Taken,
            }
        }
        state
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        self.path.join(format!("{name}.{extension}"))
    }
}

impl DeadLetter {
    /// Position in the log, as it is part of the name.
    fn place(&self) -> String {
        let SectionPosition { frame, section } = self.position;
        let (segment, offset) = (frame.segment, frame.offset);
        format!("{segment}-{offset}-{section}-{}", self.row)
    }

    /// Returns true if the name is one of this table and position, with any salt or without one.
    fn may_have(&self, name: &str) -> bool {
        let rest = name.strip_prefix(self.key.table_name());
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix('-')) else {
            return false;
        };
        let is_salt = |text: &str| {
            text.len() == SALT_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
        };
        let place = match rest.split_once('-') {
            Some((salt, place)) if is_salt(salt) => place,
            _ => rest,
        };
        let number = place.strip_prefix(&self.place());
        number.is_some_and(|number| number.is_empty() || number.starts_with('-'))
    }
}

/// Hashes of everything in a name that may be a place: a salt before it, or a number after it,
/// looks like a part of one.
fn places_in(name: &str) -> Vec<u64> {
    let parts: Vec<&str> = name.split('-').collect();
    let places = parts.windows(PLACE_NUMBERS);
    places.map(|numbers| hash(&numbers.join("-"))).collect()
}

fn hash(place: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(place)
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
        let dead_letters = DeadLetters::new(dir.path().join("dead-letters"), 42);
        let path = dead_letters.write(&letter).unwrap();
        assert!(
            path.ends_with("dead-letters/events-0000002a-4-128-1-7.json"),
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
            other.ends_with("dead-letters/events-0000002a-4-128-1-7-2.json"),
            "{other:?}"
        );
        assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");
    }

    #[test]
    fn rows_that_are_kept_under_another_salt_or_none_keep_their_name_and_others_get_their_own() {
        // Names that are there, with their bytes, and the name that the row then has.
        for (name, bytes, expected) in [
            ("events-4-128-1-7", "row", "events-4-128-1-7"),
            ("events-4-128-1-7-2", "row", "events-4-128-1-7-2"),
            ("events-4-128-1-7", "other", "events-0000002a-4-128-1-7"),
            (
                "events-00000029-4-128-1-7",
                "row",
                "events-00000029-4-128-1-7",
            ),
            (
                "events-00000029-4-128-1-7",
                "other",
                "events-0000002a-4-128-1-7",
            ),
            ("events-4-128-1-77", "row", "events-0000002a-4-128-1-7"),
            ("events-44-128-1-7", "row", "events-0000002a-4-128-1-7"),
            (
                "events-00000029-5-128-1-7",
                "row",
                "events-0000002a-4-128-1-7",
            ),
            ("events-0029-4-128-1-7", "row", "events-0000002a-4-128-1-7"),
            ("persons-4-128-1-7", "row", "events-0000002a-4-128-1-7"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let there = dir.path().join(format!("{name}.rowbinary"));
            fs::write(&there, bytes).unwrap();
            let path = DeadLetters::new(dir.path(), 42).write(&letter());
            let path = path.unwrap();
            assert_eq!(path.file_stem().unwrap(), expected, "{name}, {bytes}");
            assert_eq!(fs::read(path.with_extension("rowbinary")).unwrap(), b"row");
            assert_eq!(fs::read(there).unwrap(), bytes.as_bytes(), "{name}");
        }
    }

    #[test]
    fn the_folder_is_searched_only_for_positions_in_unusual_names() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "events-0000002a-4-128-1-1",
            "events-00000029-4-128-1-2",
            "events-4-128-1-3",
            "events-0000002a-4-128-1-4-2",
        ] {
            let rows = dir.path().join(format!("{name}.rowbinary"));
            fs::write(&rows, "other").unwrap();
            fs::write(rows.with_extension("json"), "{}").unwrap();
        }
        let dead_letters = DeadLetters::new(dir.path(), 42);
        let searched = (1..6).filter(|row| {
            let letter = DeadLetter {
                row: *row,
                ..letter()
            };
            dead_letters.may_be_kept(&letter).unwrap()
        });
        assert_eq!(searched.collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn rows_and_blocks_of_one_position_have_a_description_each() {
        for is_unpacked in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let dead_letters = DeadLetters::new(dir.path(), 42);
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
