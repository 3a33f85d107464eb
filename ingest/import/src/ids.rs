//! Uuids of imported events: the same for the same event, however often it is imported.
//!
//! The hashed bytes must never change: events that were imported before keep their uuids.

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

/// The namespace of imported events: never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d69_6c6c_7261_6365_8576_696d_706f_7274);

/// Prefix of a key that is the source's own id, so that keys of two kinds never coincide.
const OF_SOURCE: u8 = 0;
/// Prefix of a key that is made of the record.
const OF_RECORD: u8 = 1;

/// Makes uuids for the events of one source.
#[derive(Clone, Debug)]
pub struct Ids {
    /// Hash of the source and its project.
    prefix: [u8; 16],
    scratch: Vec<u8>,
}

/// Position of an event, which distinguishes records without an id of their own.
#[derive(Clone, Copy, Debug)]
pub struct EventPosition<'a> {
    /// [`crate::files::SourceFile::stem`] of the file.
    pub stem: &'a str,
    /// Ordinal of the record in the file.
    pub ordinal: u64,
    /// Index of the event among those of the record.
    pub index: u32,
}

impl Ids {
    /// Creates a generator for a source, such as `mixpanel`, and the name of the project there.
    #[must_use]
    pub fn new(source: &str, project: &str) -> Self {
        let mut prefix = Vec::new();
        for part in [source, project] {
            prefix.extend_from_slice(&(part.len() as u64).to_be_bytes());
            prefix.extend_from_slice(part.as_bytes());
        }
        Self {
            prefix: xxh3_128(&prefix).to_be_bytes(),
            scratch: Vec::new(),
        }
    }

    /// Makes a uuid of the source's own id.
    pub fn of_key(&mut self, key: &[u8]) -> Uuid {
        self.hash(OF_SOURCE, key)
    }

    /// Makes a uuid of a record's bytes and position, so that two equal records stay two.
    pub fn of_record(&mut self, raw: &[u8], position: EventPosition<'_>) -> Uuid {
        let mut key = [0; 28];
        let (hash, rest) = key.split_at_mut(16);
        hash.copy_from_slice(&xxh3_128(raw.trim_ascii()).to_be_bytes());
        let (ordinal, index) = rest.split_at_mut(8);
        ordinal.copy_from_slice(&position.ordinal.to_be_bytes());
        index.copy_from_slice(&position.index.to_be_bytes());
        self.scratch.clear();
        self.scratch.extend_from_slice(&key);
        self.scratch.extend_from_slice(position.stem.as_bytes());
        let key = std::mem::take(&mut self.scratch);
        let uuid = self.hash(OF_RECORD, &key);
        self.scratch = key;
        uuid
    }

    /// Hashes a key into a uuid; long keys are hashed by XXH3 first, as SHA-1 is slow.
    fn hash(&self, kind: u8, key: &[u8]) -> Uuid {
        let key = xxh3_128(key).to_be_bytes();
        let mut all = [kind; 33];
        let (_, rest) = all.split_at_mut(1);
        let (first, second) = rest.split_at_mut(16);
        first.copy_from_slice(&self.prefix);
        second.copy_from_slice(&key);
        Uuid::new_v5(&NAMESPACE, &all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_depends_only_on_source_project_record_and_position() {
        let position = EventPosition {
            stem: "a.ndjson",
            ordinal: 7,
            index: 0,
        };
        let mut ids = Ids::new("mixpanel", "1");
        let base = ids.of_record(b"{}", position);
        assert_eq!(
            base,
            Ids::new("mixpanel", "1").of_record(b" {}\r", position)
        );
        assert_eq!(base.get_version_num(), 5);
        let others = [
            Ids::new("mixpanel1", "").of_record(b"{}", position),
            Ids::new("amplitude", "1").of_record(b"{}", position),
            ids.of_record(b"{ }", position),
            ids.of_record(
                b"{}",
                EventPosition {
                    ordinal: 8,
                    ..position
                },
            ),
            ids.of_record(
                b"{}",
                EventPosition {
                    index: 1,
                    ..position
                },
            ),
            ids.of_record(
                b"{}",
                EventPosition {
                    stem: "b.ndjson",
                    ..position
                },
            ),
            ids.of_key(b"{}"),
        ];
        for other in others {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn ids_are_stable_across_versions() {
        let mut ids = Ids::new("mixpanel", "1");
        assert_eq!(
            ids.of_key(b"insert-1").to_string(),
            "82a02752-36e3-5af3-b2ae-fb1150315c37"
        );
    }
}
