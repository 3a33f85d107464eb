//! Are copies of persons and groups there, when nobody who can be believed said so.
//!
//! Unlike events, rows are sent again with others beside them, so that one of them tells nothing of the
//! rest: each is looked for. A row of a higher version is as good, as of several the highest counts.

use crate::persons::PersonTable;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use std::collections::{BTreeMap, btree_map};
use std::fmt::Write;
use uuid::Uuid;

/// Bytes of a question: a server reads 256 KiB unless told otherwise.
const QUESTION_BYTES_MAX: usize = 64 << 10;

/// Keys of rows, each as a tuple in SQL, and the highest version that was sent of it.
pub(crate) type Keys = BTreeMap<String, u64>;

impl PersonTable {
    /// The columns that a row is known by.
    const fn key_columns(self) -> &'static str {
        match self {
            Self::Persons => "team_id, id",
            Self::DistinctIds => "team_id, distinct_id",
            Self::Groups => "team_id, group_type, group_key",
        }
    }
}

/// Keys of rows that are encoded as RowBinary; `None` if they are not rows of that table.
pub(crate) fn keys(table: PersonTable, rows: &[u8]) -> Option<Keys> {
    let mut keys = Keys::new();
    let mut rest = Reader(rows);
    while !rest.0.is_empty() {
        let team_id = i64::from_le_bytes(rest.array()?);
        let key = match table {
            PersonTable::Persons => {
                let id = rest.uuid()?;
                rest.take(8)?;
                rest.text()?;
                rest.take(2)?;
                format!("({team_id},toUUID('{id}'))")
            }
            PersonTable::DistinctIds => {
                let distinct_id = quoted_text(rest.text()?);
                rest.take(16)?;
                format!("({team_id},{distinct_id})")
            }
            PersonTable::Groups => {
                let (of, key) = (rest.text()?, rest.text()?);
                rest.take(8)?;
                rest.text()?;
                format!("({team_id},{},{})", quoted_text(of), quoted_text(key))
            }
        };
        let version = u64::from_le_bytes(rest.array()?);
        match keys.entry(key) {
            btree_map::Entry::Vacant(entry) => {
                entry.insert(version);
            }
            btree_map::Entry::Occupied(mut entry) => {
                let highest = version.max(*entry.get());
                entry.insert(highest);
            }
        }
    }
    Some(keys)
}

impl ClickHouse {
    /// Whether all of the rows are there, in these versions or later ones.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub(crate) async fn are_copied(
        &self,
        table: PersonTable,
        keys: &Keys,
    ) -> Result<bool, QueryError> {
        let mut of_version: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        let (mut bytes, mut count) = (0, 0);
        for (key, version) in keys {
            of_version.entry(*version).or_default().push(key);
            bytes += key.len() + 64;
            count += 1;
            if bytes >= QUESTION_BYTES_MAX {
                if self.count_copied(table, &of_version).await? != count {
                    return Ok(false);
                }
                of_version.clear();
                (bytes, count) = (0, 0);
            }
        }
        Ok(count == 0 || self.count_copied(table, &of_version).await? == count)
    }

    async fn count_copied(
        &self,
        table: PersonTable,
        of_version: &BTreeMap<u64, Vec<&str>>,
    ) -> Result<u64, QueryError> {
        let columns = table.key_columns();
        let mut sought = String::new();
        for (version, keys) in of_version {
            let or = if sought.is_empty() { "" } else { " OR " };
            let keys = keys.join(",");
            // Writing to a String cannot fail.
            let _ = write!(
                sought,
                "{or}(({columns}) IN ({keys}) AND version >= {version})"
            );
        }
        let source = self.person_source(table);
        self.fetch_u64(&format!(
            "SELECT uniqExact({columns}) FROM {source} WHERE {sought}"
        ))
        .await
    }
}

/// RowBinary that is not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// A string behind its length, which has seven bits a byte.
    fn text(&mut self) -> Option<&'a str> {
        let mut length: u64 = 0;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                let text = self.take(usize::try_from(length).ok()?)?;
                return str::from_utf8(text).ok();
            }
        }
        None
    }

    /// Two numbers of eight bytes, the first one first.
    fn uuid(&mut self) -> Option<Uuid> {
        let high = u64::from_le_bytes(self.array()?);
        let low = u64::from_le_bytes(self.array()?);
        Some(Uuid::from_u64_pair(high, low))
    }
}
