//! Rows that can still be read of a section whose blocks are damaged.
//!
//! Each block has a checksum of its own, but rows go on from block to block, and behind a damaged
//! one nothing tells where a row begins. Rows of events are found again by
//! [`proven_rows`](super::event_search::proven_rows). In other tables only the rows before the
//! damage are read: what clients sent is in them as it was sent, so that it may have the likeness
//! of any row.

use super::event_search::proven_rows;
use super::rows::{Layout, Row};
use super::section::{InsertKey, Section};
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::block::decompress_sound;
use millrace_rows::{Micros, RowKey, Table};

/// Upper bound of a section's bytes: a larger one is not ours.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// Whole rows that could be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Salvaged {
    pub bytes: Vec<u8>,
    /// Number of rows.
    pub rows: u64,
    /// Keys of the rows.
    pub keys: Vec<RowKey>,
}

/// Returns the whole rows of a damaged section, in their order; `None` if there are none, or cannot
/// be told apart.
pub fn salvage<S>(key: &InsertKey, section: &Section<S>, blocks: &[u8]) -> Option<Salvaged> {
    let layout = Layout::of(&key.insert_target)?;
    let moments: Vec<Micros> = section.keys.iter().map(|key| key.received_at).collect();
    let (mut bytes, mut rows) = (Vec::new(), Vec::<Row>::new());
    let stretches = decompress_sound(blocks, SECTION_BYTES_MAX);
    for (nth, stretch) in stretches.iter().enumerate() {
        let range = match nth {
            0 => Some(0..stretch.len()),
            _ if *key.insert_target == *Table::Events.insert_target() => {
                proven_rows(stretch, key.month, &moments)
            }
            _ => None,
        };
        let Some(known) = range.and_then(|range| stretch.get(range)) else {
            continue;
        };
        let found = layout.leading_rows(known);
        let end = found.last().map_or(0, |row| row.bytes.end);
        bytes.extend_from_slice(known.get(..end).unwrap_or_default());
        rows.extend(found);
    }
    let keys: Vec<RowKey> = rows.iter().filter_map(|row| row.key).collect();
    // More rows than the section had: then something was mistaken for a row.
    let fits = !rows.is_empty() && rows.len() <= section.rows as usize && keys.len() == rows.len();
    fits.then_some(Salvaged {
        bytes,
        rows: rows.len() as u64,
        keys,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::section::SectionPosition;
    use millrace_log::Position;
    use millrace_log::block::Compressor;
    use millrace_rows::{EventRow, Month, ProjectId};
    use uuid::Uuid;

    const NOVEMBER: i64 = 1_795_132_800_000_000;
    /// Bytes of rows in a block.
    const BLOCK_ROWS_BYTES: usize = 64 << 10;

    #[test]
    fn whole_rows_of_many_requests_are_read_behind_damage() {
        let (mut bytes, mut blocks, mut keys, mut ends) =
            (Vec::new(), Vec::new(), Vec::new(), vec![0]);
        for nth in 0..1_000 {
            let properties = format!(r#"{{"text":"{}","more":{{"n":{nth}}}}}"#, "x}".repeat(90));
            let row = EventRow {
                uuid: Uuid::from_u128(nth as u128 + 1),
                event: b"seen",
                properties: &[properties.as_bytes()],
                timestamp: Micros(NOVEMBER - nth),
                team_id: ProjectId(1 + nth % 3),
                distinct_id: b"somebody",
                // Each of a request of its own.
                created_at: Micros(NOVEMBER + 137 * nth),
                historical_migration: false,
            };
            row.append_to(&mut bytes);
            ends.push(bytes.len());
            keys.push(row.key());
        }
        Compressor::new().compress_into(&bytes, &mut blocks);
        let key = InsertKey {
            insert_target: Table::Events.insert_target().into(),
            month: Month::of(Micros(NOVEMBER)),
        };
        let section = Section {
            position: SectionPosition {
                frame: Position::FIRST,
                section: 0,
            },
            rows: 1_000,
            row_bytes: bytes.len() as u64,
            // As a joined section has it.
            keys: keys[..4].to_vec(),
            is_suspect: false,
            source: (),
        };
        let mut at = 0;
        for nth in 0..bytes.len().div_ceil(BLOCK_ROWS_BYTES) {
            let covered: [u8; 4] = blocks[at + 17..at + 21].try_into().unwrap();
            let mut damaged = blocks.clone();
            damaged[at + 40] ^= 1;
            at += 16 + u32::from_le_bytes(covered) as usize;
            let gone = nth * BLOCK_ROWS_BYTES..(nth + 1) * BLOCK_ROWS_BYTES;
            let whole =
                (0..1_000).filter(|&row| ends[row + 1] <= gone.start || ends[row] >= gone.end);
            let whole: Vec<RowKey> = whole.map(|row| keys[row]).collect();
            let salvaged = salvage(&key, &section, &damaged).unwrap();
            assert_eq!(salvaged.keys, whole, "block {nth}");
        }
    }
}
