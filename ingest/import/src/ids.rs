//! The uuids of imported events: the same for the same event, however often it is imported.
//!
//! What is hashed is stored with every event that was ever imported, so none of it may change.

use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

/// The namespace of imported events: never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d69_6c6c_7261_6365_8576_696d_706f_7274);

/// What kind of key an event has, so that none of one kind is ever one of the other.
const OF_SOURCE: u8 = 0;
const OF_RECORD: u8 = 1;

/// Makes uuids for the events of one source.
#[derive(Clone, Debug)]
pub struct Ids {
    /// The source and its project, summed up.
    prefix: [u8; 16],
    scratch: Vec<u8>,
}

/// Where a record without an id of its own is told apart by.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// [`crate::files::SourceFile::stem`] of its file.
    pub stem: &'a str,
    /// Its ordinal in the file.
    pub ordinal: u64,
    /// The event's place among those of the record.
    pub index: u32,
}

impl Ids {
    /// For a source, such as `mixpanel`, and the name of the project there.
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

    /// Of the source's own id.
    pub fn of_key(&mut self, key: &[u8]) -> Uuid {
        self.hash(OF_SOURCE, key)
    }

    /// Of a record without one: by its bytes and its place, so that two that are the same stay two.
    pub fn of_record(&mut self, raw: &[u8], place: Place<'_>) -> Uuid {
        let mut key = [0; 28];
        let (hash, rest) = key.split_at_mut(16);
        hash.copy_from_slice(&xxh3_128(raw.trim_ascii()).to_be_bytes());
        let (ordinal, index) = rest.split_at_mut(8);
        ordinal.copy_from_slice(&place.ordinal.to_be_bytes());
        index.copy_from_slice(&place.index.to_be_bytes());
        self.scratch.clear();
        self.scratch.extend_from_slice(&key);
        self.scratch.extend_from_slice(place.stem.as_bytes());
        let key = std::mem::take(&mut self.scratch);
        let uuid = self.hash(OF_RECORD, &key);
        self.scratch = key;
        uuid
    }

    /// SHA-1 takes longer than all else, so long keys are summed up first.
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
    fn an_id_depends_on_all_that_tells_events_apart_and_on_nothing_else() {
        let place = Place {
            stem: "a.ndjson",
            ordinal: 7,
            index: 0,
        };
        let mut ids = Ids::new("mixpanel", "1");
        let base = ids.of_record(b"{}", place);
        assert_eq!(base, Ids::new("mixpanel", "1").of_record(b" {}\r", place));
        assert_eq!(base.get_version_num(), 5);
        let others = [
            Ids::new("mixpanel1", "").of_record(b"{}", place),
            Ids::new("amplitude", "1").of_record(b"{}", place),
            ids.of_record(b"{ }", place),
            ids.of_record(
                b"{}",
                Place {
                    ordinal: 8,
                    ..place
                },
            ),
            ids.of_record(b"{}", Place { index: 1, ..place }),
            ids.of_record(
                b"{}",
                Place {
                    stem: "b.ndjson",
                    ..place
                },
            ),
            ids.of_key(b"{}"),
        ];
        for other in others {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn ids_stay_what_they_were() {
        let mut ids = Ids::new("mixpanel", "1");
        assert_eq!(
            ids.of_key(b"insert-1").to_string(),
            "82a02752-36e3-5af3-b2ae-fb1150315c37"
        );
    }
}
