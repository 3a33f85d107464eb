//! Rows that can still be read of a section whose blocks are damaged.
//!
//! Each block has a checksum of its own, but rows go on from block to block, and behind a damaged
//! one nothing tells where a row begins. Rows of events are found again by values that cannot be
//! there by chance, nor be forged by clients: the time of receipt in microseconds that the
//! section's header names, at its offset in a row, and before it a month, a JSON object and lengths
//! that fit. From there on one row follows the other. In other tables only the rows before the
//! damage are read.

use super::rows::{Layout, Row, text};
use super::section::{InsertKey, Section};
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::block::decompress_sound;
use millrace_rows::{Micros, Month, RowKey, Table};

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
        let start = match nth {
            0 => Some(0),
            _ if *key.insert_target == *Table::Events.insert_target() => {
                (0..stretch.len()).find(|&at| begins_event(stretch, at, key.month, &moments))
            }
            _ => None,
        };
        let Some(known) = start.and_then(|start| stretch.get(start..)) else {
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

/// Returns true if a row of events begins at offset `at` of `bytes`.
fn begins_event(bytes: &[u8], at: usize, month: Month, moments: &[Micros]) -> bool {
    let row = || {
        let (_, rest) = bytes.get(at..)?.split_at_checked(16)?;
        let (event, rest) = text(rest)?;
        let (properties, rest) = text(rest)?;
        let (timestamp, rest) = number(rest)?;
        let (team_id, rest) = number(rest)?;
        let (distinct_id, rest) = text(rest)?;
        let (created_at, rest) = number(rest)?;
        let is_known = moments.contains(&Micros(created_at));
        let is_fitting = Month::of(Micros(timestamp)) == month && team_id > 0 && *rest.first()? < 2;
        let is_text = |bytes| std::str::from_utf8(bytes).is_ok();
        Some(
            is_known
                && is_fitting
                && is_text(event)
                && is_text(distinct_id)
                && properties.first() == Some(&b'{')
                && serde_json::from_slice::<serde::de::IgnoredAny>(properties).is_ok(),
        )
    };
    row() == Some(true)
}

fn number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((i64::from_le_bytes(*number), rest))
}
