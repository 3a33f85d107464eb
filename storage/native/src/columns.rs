//! Values of rows, column by column.

use crate::cells::{Cells, Place};
use crate::city_hash::city_hash_64;
use crate::column::{BlockColumn, Column};
use crate::dictionary::{Dictionary, FoundNames};
use crate::error::NativeError;
use crate::property::{Extracted, Extractor, PropertyPlan};
use crate::sort::SortRow;
use crate::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX};
use millrace_rows::rowbinary::put_bytes;

const DAY_MICROS: i64 = 86_400_000_000;

/// Values of the columns, in the order of the rows; of a column that the rows do not have, none.
///
/// Texts stay in the rows: they are most of the bytes, and are copied once, into the block. What
/// has a fixed size is copied here, where a block's order finds it in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    uuids: Vec<[u8; 16]>,
    /// Indexes of the names in the dictionary.
    names: Vec<u16>,
    dictionary: Dictionary,
    properties: Vec<Place>,
    timestamps: Vec<[u8; 8]>,
    team_ids: Vec<[u8; 8]>,
    distinct_ids: Vec<Place>,
    created_ats: Vec<[u8; 8]>,
    historical: Vec<[u8; 1]>,
    /// Property columns.
    extracted: Extracted,
}

/// Reads rows into columns, and computes their sorting keys.
///
/// # Errors
/// If the bytes are no rows of these columns, or more than a block may have.
pub(crate) fn decode(
    list: &[Column],
    rows: &[u8],
    plan: &PropertyPlan,
) -> Result<(Columns, Vec<SortRow>), NativeError> {
    if rows.len() > BLOCK_BYTES_MAX {
        return Err(NativeError::TooLarge);
    }
    let (mut columns, mut keys) = (Columns::default(), Vec::new());
    let (mut cells, mut names) = (Cells::new(rows), FoundNames::default());
    let mut extractor = Extractor::new(plan).filter(|_| list.contains(&Column::Properties));
    while !cells.is_empty() {
        if keys.len() == BLOCK_ROWS_MAX {
            return Err(NativeError::TooLarge);
        }
        let mut key = SortRow {
            row: keys.len() as u32,
            ..SortRow::default()
        };
        for &column in list {
            columns.take(column, (&mut cells, &mut names), &mut key)?;
        }
        if let (Some(extractor), Some(place)) = (&mut extractor, columns.properties.last()) {
            extractor.read((key.team_id, keys.len()), place.text_of(rows));
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Err(NativeError::NoRows);
    }
    let (dictionary, ranks) = names.sorted();
    columns.dictionary = dictionary;
    columns.rank_names(&ranks, &mut keys);
    columns.extracted = extractor.map_or_else(Extracted::default, |it| it.finish(keys.len()));
    Ok((columns, keys))
}

impl Columns {
    /// Takes the next cell, which is one of `column`.
    fn take<'a>(
        &mut self,
        column: Column,
        (cells, names): (&mut Cells<'a>, &mut FoundNames<'a>),
        key: &mut SortRow,
    ) -> Result<(), NativeError> {
        let row = key.row as usize;
        let incomplete = NativeError::Incomplete { row };
        let invalid = NativeError::Invalid {
            row,
            column: column.name(),
        };
        match column {
            Column::Uuid => {
                let uuid = cells.fixed::<16>().ok_or(incomplete)?;
                key.uuid = city_hash_64(&uuid);
                self.uuids.push(uuid);
            }
            Column::Event => {
                let name = cells.text().ok_or(incomplete)?.text;
                let number = names.number_of(name).ok_or(NativeError::ManyNames)?;
                self.names.push(number);
            }
            Column::Properties => {
                let properties = cells.text().ok_or(incomplete)?;
                self.properties.push(properties.place);
            }
            Column::Timestamp => {
                let timestamp = cells.fixed::<8>().ok_or(incomplete)?;
                key.day = day_of(i64::from_le_bytes(timestamp)).ok_or(invalid)?;
                self.timestamps.push(timestamp);
            }
            Column::TeamId => {
                let team_id = cells.fixed::<8>().ok_or(incomplete)?;
                key.team_id = i64::from_le_bytes(team_id);
                self.team_ids.push(team_id);
            }
            Column::DistinctId => {
                let distinct_id = cells.text().ok_or(incomplete)?;
                key.distinct_id = city_hash_64(distinct_id.text);
                self.distinct_ids.push(distinct_id.place);
            }
            Column::CreatedAt => {
                let created_at = cells.fixed::<8>().ok_or(incomplete)?;
                self.created_ats.push(created_at);
            }
            Column::HistoricalMigration => {
                let flag = cells.fixed::<1>().ok_or(incomplete)?;
                if flag != [0] && flag != [1] {
                    return Err(invalid);
                }
                self.historical.push(flag);
            }
        }
        Ok(())
    }

    /// Replaces the numbers of names by their ranks, and puts these into the keys.
    fn rank_names(&mut self, ranks: &[u16], keys: &mut [SortRow]) {
        for (name, key) in self.names.iter_mut().zip(keys) {
            let rank = ranks.get(usize::from(*name)).copied().unwrap_or_default();
            *name = rank;
            key.name = rank;
        }
    }

    /// Property columns of the block.
    pub(crate) const fn extracted(&self) -> &Extracted {
        &self.extracted
    }

    /// Returns what a block has of a column before its values, which are in an order.
    pub(crate) fn head(&self, column: BlockColumn, order: &[u32]) -> Vec<u8> {
        let (name, kind) = match column {
            BlockColumn::Row(column) => (column.name(), column.type_name()),
            BlockColumn::Property(index) => self.extracted.name_and_type(index),
        };
        let mut head = Vec::new();
        put_bytes(&mut head, name.as_bytes());
        put_bytes(&mut head, kind.as_bytes());
        match column {
            BlockColumn::Row(Column::Event) => self.dictionary.append_to(&mut head, order.len()),
            BlockColumn::Row(_) => {}
            BlockColumn::Property(index) => self.extracted.append_head(index, order, &mut head),
        }
        head
    }

    /// Bytes that a block has of a row in a column.
    #[inline]
    pub(crate) fn cell_bytes(&self, column: BlockColumn, row: u32) -> usize {
        let column = match column {
            BlockColumn::Row(column) => column,
            BlockColumn::Property(index) => return self.extracted.cell_bytes(index, row),
        };
        let text = |places: &[Place]| places.get(row as usize).map_or(0, |place| place.len());
        match column {
            Column::Uuid => 16,
            Column::Event => self.dictionary.index_bytes(),
            Column::Properties => text(&self.properties),
            Column::DistinctId => text(&self.distinct_ids),
            Column::Timestamp | Column::TeamId | Column::CreatedAt => 8,
            Column::HistoricalMigration => 1,
        }
    }

    /// Appends the values of a column: those of `order`, which has indexes of `rows`.
    pub(crate) fn append_values(
        &self,
        column: BlockColumn,
        (rows, order): (&[u8], &[u32]),
        out: &mut Vec<u8>,
    ) {
        let column = match column {
            BlockColumn::Row(column) => column,
            BlockColumn::Property(index) => {
                return self.extracted.append_values(index, (rows, order), out);
            }
        };
        match column {
            Column::Uuid => append_fixed(&self.uuids, order, out),
            Column::Event => {
                let names = order.iter().filter_map(|&row| self.names.get(row as usize));
                self.dictionary.append_indexes(names.copied(), out);
            }
            Column::Properties => append_texts(&self.properties, (rows, order), out),
            Column::Timestamp => append_fixed(&self.timestamps, order, out),
            Column::TeamId => append_fixed(&self.team_ids, order, out),
            Column::DistinctId => append_texts(&self.distinct_ids, (rows, order), out),
            Column::CreatedAt => append_fixed(&self.created_ats, order, out),
            Column::HistoricalMigration => append_fixed(&self.historical, order, out),
        }
    }
}

fn append_fixed<const N: usize>(values: &[[u8; N]], order: &[u32], out: &mut Vec<u8>) {
    for &row in order {
        if let Some(value) = values.get(row as usize) {
            out.extend_from_slice(value);
        }
    }
}

fn append_texts(places: &[Place], (rows, order): (&[u8], &[u32]), out: &mut Vec<u8>) {
    for &row in order {
        if let Some(place) = places.get(row as usize) {
            out.extend_from_slice(place.of(rows));
        }
    }
}

/// Returns `toDate` of a time as the number of its day; `None` if it has none there.
fn day_of(micros: i64) -> Option<u16> {
    match micros {
        0.. => u16::try_from(micros / DAY_MICROS).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_that_of_the_calendar_in_utc_as_far_as_dates_go() {
        let table = [
            (0, Some(0)),
            (DAY_MICROS - 1, Some(0)),
            (DAY_MICROS, Some(1)),
            (1_795_132_800_000_000, Some(20_777)),
            (65_536 * DAY_MICROS - 1, Some(65_535)),
            (65_536 * DAY_MICROS, None),
            (i64::MAX, None),
            (-1, None),
            (i64::MIN, None),
        ];
        for (micros, day) in table {
            assert_eq!(day_of(micros), day, "{micros}");
        }
    }
}
