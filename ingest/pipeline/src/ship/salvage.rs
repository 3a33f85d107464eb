//! Rows that can still be read of a section whose blocks are damaged.
//!
//! Each block has a checksum of its own, but rows go on from block to block, and behind a damaged
//! one nothing tells where a row begins. Rows of events are found again by
//! [`proven_rows`](super::event_search::proven_rows). In other tables only the rows before the
//! damage are read: what clients sent is in them as it was sent, so that it may have the likeness
//! of any row.

use super::event_search::proven_rows;
use super::insert_batch::RowRange;
use super::row_keys::KeyedRow;
use super::rows::Layout;
use super::section::{InsertKey, Section};
use millrace_blocks::decompress_sound;
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_rows::{Micros, Table};

/// Upper bound of a section's bytes: a larger one is not ours.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// Whole rows that could be read.
#[derive(Debug, PartialEq, Eq)]
pub struct Salvaged {
    pub bytes: Vec<u8>,
    /// Rows in `bytes`.
    pub rows: Vec<KeyedRow>,
    /// Other rows of the section that could be read.
    pub others: Vec<KeyedRow>,
}

impl Salvaged {
    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }
}

/// Returns the whole rows of a damaged section, in their order; `None` if there are none, or cannot
/// be told apart. With a `range`, only rows of which it is known that they are in it: those before
/// the damage are counted from the section's first row, those behind it from the last. Between two
/// damaged places nothing tells which rows they are.
pub fn salvage<S>(
    key: &InsertKey,
    section: &Section<S>,
    blocks: &[u8],
    range: Option<RowRange>,
) -> Option<Salvaged> {
    let layout = Layout::of(&key.insert_target)?;
    let moments: Vec<Micros> = section.keys.iter().map(|key| key.received_at).collect();
    let sound = decompress_sound(blocks, SECTION_BYTES_MAX);
    let (all, last) = (section.rows as usize, sound.stretches.len() - 1);
    let (mut bytes, mut count) = (Vec::new(), 0);
    let (mut found, mut others) = (Vec::<KeyedRow>::new(), Vec::<KeyedRow>::new());
    for (nth, stretch) in sound.stretches.iter().enumerate() {
        let span = match nth {
            0 => Some(0..stretch.len()),
            _ if *key.insert_target == *Table::Events.insert_target() => {
                proven_rows(stretch, key.month, &moments)
            }
            _ => None,
        };
        let Some(known) = span.and_then(|span| Some((span.end, stretch.get(span)?))) else {
            continue;
        };
        let (end, known) = known;
        let rows = layout.leading_rows(known);
        count += rows.len();
        let ends_section = nth == last && sound.is_to_end && end == stretch.len();
        let first = match nth {
            0 => Some(0),
            _ if ends_section => all.checked_sub(rows.len()),
            _ => None,
        };
        for (row, place) in rows.into_iter().zip(0..) {
            let place = first.map(|first| first + place);
            let keyed = row.keyed();
            if range.is_none_or(|range| place.is_some_and(|place| range.contains(place))) {
                bytes.extend_from_slice(known.get(row.bytes).unwrap_or_default());
                found.push(keyed?);
            } else {
                others.extend(keyed);
            }
        }
    }
    // More rows than the section had: then something was mistaken for a row.
    let fits = !found.is_empty() && count <= all;
    fits.then_some(Salvaged {
        bytes,
        rows: found,
        others,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ship::section::SectionPosition;
    use millrace_blocks::Compressor;
    use millrace_log::Position;
    use millrace_rows::{EventRow, Month, ProjectId, RowKey};
    use uuid::Uuid;

    const NOVEMBER: i64 = 1_795_132_800_000_000;
    /// Bytes of rows in a block.
    const BLOCK_ROWS_BYTES: usize = 64 << 10;

    fn keys_of(rows: &[KeyedRow]) -> Vec<RowKey> {
        rows.iter().map(|row| row.key).collect()
    }

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
            let salvaged = salvage(&key, &section, &damaged, None).unwrap();
            assert_eq!(keys_of(&salvaged.rows), whole, "block {nth}");
            assert!(salvaged.rows.iter().all(|row| row.version.is_some()));
            // Each row is in one half, and in the right one.
            let places = (0..1_000).filter(|row| whole.contains(&keys[*row as usize]));
            let places: Vec<u32> = places.collect();
            for (from, to) in [(0, 500), (500, 1_000), (0, 1), (999, 1_000)] {
                let range = RowRange { from, to };
                let found = salvage(&key, &section, &damaged, Some(range));
                let found = found.map(|it| (keys_of(&it.rows), keys_of(&it.others)));
                let (wanted, others): (Vec<u32>, Vec<u32>) = places
                    .iter()
                    .copied()
                    .partition(|place| (from..to).contains(place));
                let of = |places: &[u32]| -> Vec<RowKey> {
                    places.iter().map(|place| keys[*place as usize]).collect()
                };
                let expected = (!wanted.is_empty()).then(|| (of(&wanted), of(&others)));
                assert_eq!(found, expected, "block {nth}, rows {from} to {to}");
            }
        }
    }
}
