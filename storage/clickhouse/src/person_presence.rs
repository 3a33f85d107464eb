//! Checks that copies of persons and groups are stored, when a success was answered without proof.
//!
//! Unlike events, rows are sent again together with others, so one found row proves nothing about
//! the rest: each is looked up. A row of a higher version counts, too, since the highest version
//! wins.

use crate::person_table::PersonTable;
use crate::settings::quoted_text;
use crate::{ClickHouse, QueryError};
use std::collections::{BTreeMap, btree_map};
use std::fmt::Write;
use uuid::Uuid;

/// Most bytes of a query: a server reads 256 KiB by default.
const QUERY_BYTES_MAX: usize = 64 << 10;

/// Keys of rows, each as a tuple in SQL, with the highest version that was sent.
pub(crate) type Keys = BTreeMap<String, u64>;

impl PersonTable {
    /// Key columns of the table.
    pub(crate) const fn key_columns(self) -> &'static str {
        match self {
            Self::Persons => "team_id, id",
            Self::DistinctIds => "team_id, distinct_id",
            Self::Groups => "team_id, group_type, group_key",
        }
    }
}

/// Decodes the keys of rows in RowBinary; `None` if they are not rows of that table.
pub(crate) fn keys(table: PersonTable, rows: &[u8]) -> Option<Keys> {
    let mut keys = Keys::new();
    let mut rest = Reader(rows);
    while !rest.0.is_empty() {
        let project_id = i64::from_le_bytes(rest.array()?);
        let key = match table {
            PersonTable::Persons => {
                let id = rest.uuid()?;
                rest.take(8)?;
                rest.text()?;
                rest.take(2)?;
                format!("({project_id},toUUID('{id}'))")
            }
            PersonTable::DistinctIds => {
                let distinct_id = quoted_text(rest.text()?);
                rest.take(16)?;
                format!("({project_id},{distinct_id})")
            }
            PersonTable::Groups => {
                let (of, key) = (rest.text()?, rest.text()?);
                rest.take(8)?;
                rest.text()?;
                format!("({project_id},{},{})", quoted_text(of), quoted_text(key))
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
    /// Returns true if all of the rows are stored, in these versions or later ones, on the host or
    /// on a shard.
    ///
    /// # Errors
    /// If the server cannot be asked.
    pub(crate) async fn are_copied(
        &self,
        table: PersonTable,
        keys: &Keys,
        shard: Option<u32>,
    ) -> Result<bool, QueryError> {
        let mut of_version: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        let (mut bytes, mut count) = (0, 0);
        for (key, version) in keys {
            of_version.entry(*version).or_default().push(key);
            bytes += key.len() + 64;
            count += 1;
            if bytes >= QUERY_BYTES_MAX {
                if self.count_copied(table, &of_version, shard).await? != count {
                    return Ok(false);
                }
                of_version.clear();
                (bytes, count) = (0, 0);
            }
        }
        Ok(count == 0 || self.count_copied(table, &of_version, shard).await? == count)
    }

    async fn count_copied(
        &self,
        table: PersonTable,
        of_version: &BTreeMap<u64, Vec<&str>>,
        shard: Option<u32>,
    ) -> Result<u64, QueryError> {
        let columns = table.key_columns();
        let mut wanted = String::new();
        for (version, keys) in of_version {
            let or = if wanted.is_empty() { "" } else { " OR " };
            let keys = keys.join(",");
            // Writing to a String cannot fail.
            let _ = write!(
                wanted,
                "{or}(({columns}) IN ({keys}) AND version >= {version})"
            );
        }
        let (source, wanted) = match shard {
            None => (self.person_source(table), wanted),
            Some(shard) => (
                self.everywhere(table),
                format!("_shard_num = {shard} AND ({wanted})"),
            ),
        };
        self.fetch_u64(&format!(
            "SELECT uniqExact({columns}) FROM {source} WHERE {wanted}"
        ))
        .await
    }
}

/// Cursor over RowBinary.
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

    /// Reads a string after its length in LEB128.
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

    /// Reads two numbers of eight bytes, the upper one first.
    fn uuid(&mut self) -> Option<Uuid> {
        let high = u64::from_le_bytes(self.array()?);
        let low = u64::from_le_bytes(self.array()?);
        Some(Uuid::from_u64_pair(high, low))
    }
}
