//! Rows that can still be read of a section whose blocks are damaged.
//!
//! Each block has a checksum of its own, but rows go on from block to block, and behind a damaged one nothing says
//! where a row begins. Rows of events are found again by what cannot be there by chance, nor be put there by who
//! sends events: a moment of arrival in microseconds that the section's header names, where a row has it, and
//! before it a month, an object of JSON and lengths that fit. From there on one row follows the other.
//! Of other tables what is before the damage is read.

use super::rows::{Layout, Row, text};
use super::section::{Key, Section};
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::block::decompress_sound;
use millrace_rows::{Micros, Month, RowKey, Table};

/// A section that holds more is not ours.
const SECTION_BYTES_MAX: usize = 2 * INSERT_BYTES_MAX as usize;

/// Rows that could be read, and are whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Salvaged {
    pub bytes: Vec<u8>,
    /// How many.
    pub rows: u64,
    /// Theirs.
    pub keys: Vec<RowKey>,
}

/// The whole rows of a damaged section, in their order; `None` if there are none, or cannot be told apart.
pub fn salvage<S>(key: &Key, section: &Section<S>, blocks: &[u8]) -> Option<Salvaged> {
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
    // More than there were: then something was taken for a row that is none.
    let fits = !rows.is_empty() && rows.len() <= section.rows as usize && keys.len() == rows.len();
    fits.then_some(Salvaged {
        bytes,
        rows: rows.len() as u64,
        keys,
    })
}

/// Looks whether a row of events begins at a place of `bytes`.
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
