//! Values of one property column, in the order of the rows.

use super::keys::FoundTexts;
use super::text::{append_unescaped, inner, with_text};
use super::{time, value};
use crate::dictionary::Dictionary;
use millrace_rows::PropertyType;
use millrace_rows::rowbinary::put_bytes;

/// Mark of a text among those without escapes, beside the rows.
const UNESCAPED: u32 = 1 << 31;

/// Place of a text: in the rows, or among those that had escapes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TextPlace {
    start: u32,
    bytes: u32,
}

/// Value of a property, as it was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundValue<'a> {
    /// JSON of the value.
    pub(super) json: &'a [u8],
    /// Position of the JSON in the rows.
    pub(super) start: usize,
}

/// Values of a column. Rows behind the last value have none.
#[derive(Debug)]
pub(super) enum Values {
    Texts {
        bytes_max: usize,
        places: Vec<TextPlace>,
    },
    Keys {
        bytes_max: usize,
        found: FoundTexts,
        numbers: Vec<u16>,
    },
    /// Values of eight bytes: Int64, Float64, DateTime64.
    Numbers {
        parse: fn(&[u8]) -> Option<[u8; 8]>,
        values: Vec<[u8; 8]>,
        nulls: Vec<u8>,
    },
    Flags {
        values: Vec<[u8; 1]>,
        nulls: Vec<u8>,
    },
    /// More texts than a dictionary pays for: ClickHouse computes the column.
    TooMany,
}

/// Values of a column of a block.
#[derive(Debug)]
pub(super) enum BlockValues {
    Texts(Vec<TextPlace>),
    Keys(Dictionary, Vec<u16>),
    Numbers(Vec<[u8; 8]>, Vec<u8>),
    Flags(Vec<[u8; 1]>, Vec<u8>),
}

impl Values {
    pub(super) fn new(kind: PropertyType, bytes_max: u32) -> Self {
        let bytes_max = bytes_max as usize;
        let numbers = |parse| Self::Numbers {
            parse,
            values: Vec::new(),
            nulls: Vec::new(),
        };
        match kind {
            PropertyType::String => Self::Texts {
                bytes_max,
                places: Vec::new(),
            },
            PropertyType::LowCardinality => Self::Keys {
                bytes_max,
                found: FoundTexts::new(),
                numbers: Vec::new(),
            },
            PropertyType::Int64 => numbers(|json| Some(value::whole(json)?.to_le_bytes())),
            PropertyType::Float64 => numbers(|json| Some(value::real(json)?.to_le_bytes())),
            PropertyType::DateTime64 => {
                numbers(|json| Some(with_text(json, time::micros)??.to_le_bytes()))
            }
            PropertyType::Bool => Self::Flags {
                values: Vec::new(),
                nulls: Vec::new(),
            },
        }
    }

    /// Sets the value of a row, which is behind all that have one, if it fits. Texts with escapes
    /// are kept in `unescaped`.
    pub(super) fn set(&mut self, row: usize, found: FoundValue<'_>, unescaped: &mut Vec<u8>) {
        match self {
            Self::Texts { bytes_max, places } => {
                if let Some(place) = text_place(found, *bytes_max, unescaped) {
                    put(places, row, place, TextPlace::default());
                }
            }
            Self::Keys {
                bytes_max,
                found: texts,
                numbers,
            } => {
                let fits = |text: &[u8]| text.len() <= *bytes_max;
                let number =
                    with_text(found.json, |text| fits(text).then(|| texts.number_of(text)));
                match number.flatten() {
                    Some(Some(number)) => put(numbers, row, number, 0),
                    Some(None) => *self = Self::TooMany,
                    None => {}
                }
            }
            Self::Numbers {
                parse,
                values,
                nulls,
            } => {
                if let Some(value) = parse(found.json) {
                    put(values, row, value, [0; 8]);
                    put(nulls, row, 0, 1);
                }
            }
            Self::Flags { values, nulls } => {
                if let Some(value) = value::flag(found.json) {
                    put(values, row, [u8::from(value)], [0]);
                    put(nulls, row, 0, 1);
                }
            }
            Self::TooMany => {}
        }
    }

    /// Turns the values into those of a block with so many rows; `None` if it is to have none.
    pub(super) fn into_block(self, rows: usize) -> Option<BlockValues> {
        Some(match self {
            Self::Texts { mut places, .. } => {
                places.resize(rows, TextPlace::default());
                BlockValues::Texts(places)
            }
            Self::Keys {
                found, mut numbers, ..
            } => {
                numbers.resize(rows, 0);
                BlockValues::Keys(found.into_dictionary(), numbers)
            }
            Self::Numbers {
                mut values,
                mut nulls,
                ..
            } => {
                values.resize(rows, [0; 8]);
                nulls.resize(rows, 1);
                BlockValues::Numbers(values, nulls)
            }
            Self::Flags {
                mut values,
                mut nulls,
            } => {
                values.resize(rows, [0]);
                nulls.resize(rows, 1);
                BlockValues::Flags(values, nulls)
            }
            Self::TooMany => return None,
        })
    }
}

impl BlockValues {
    /// Appends what a block has before the values: a dictionary, or which of them are null.
    pub(super) fn append_head(&self, order: &[u32], out: &mut Vec<u8>) {
        match self {
            Self::Texts(_) => {}
            Self::Keys(dictionary, _) => dictionary.append_to(out, order.len()),
            Self::Numbers(_, nulls) | Self::Flags(_, nulls) => out.extend(in_order(nulls, order)),
        }
    }

    /// Bytes that a block has of a row.
    #[inline]
    pub(super) fn cell_bytes(&self, row: u32) -> usize {
        match self {
            Self::Texts(places) => {
                let place = places.get(row as usize).copied().unwrap_or_default();
                varint_bytes(place.bytes) + place.bytes as usize
            }
            Self::Keys(dictionary, _) => dictionary.index_bytes(),
            Self::Numbers(..) => 8,
            Self::Flags(..) => 1,
        }
    }

    /// Appends the values of rows in an order. Texts are in the rows, or in `unescaped`.
    pub(super) fn append_values(
        &self,
        (rows, unescaped): (&[u8], &[u8]),
        order: &[u32],
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Texts(places) => {
                for place in in_order(places, order) {
                    put_bytes(out, place.text(rows, unescaped));
                }
            }
            Self::Keys(dictionary, numbers) => {
                dictionary.append_indexes(in_order(numbers, order), out);
            }
            Self::Numbers(values, _) => out.extend(in_order(values, order).flatten()),
            Self::Flags(values, _) => out.extend(in_order(values, order).flatten()),
        }
    }
}

impl TextPlace {
    fn text<'a>(self, rows: &'a [u8], unescaped: &'a [u8]) -> &'a [u8] {
        let within = match self.start & UNESCAPED {
            0 => rows,
            _ => unescaped,
        };
        let start = (self.start & !UNESCAPED) as usize;
        let text = within.get(start..start + self.bytes as usize);
        text.unwrap_or_default()
    }
}

/// Puts the value of a row behind those before it, which have none where they are missing.
fn put<T: Clone>(values: &mut Vec<T>, row: usize, value: T, none: T) {
    values.resize(row, none);
    values.push(value);
}

/// Values of rows in an order.
fn in_order<T: Copy>(values: &[T], order: &[u32]) -> impl Iterator<Item = T> {
    order
        .iter()
        .filter_map(|&row| values.get(row as usize).copied())
}

/// Finds the place of a text; `None` if the value is none, or too long.
fn text_place(
    found: FoundValue<'_>,
    bytes_max: usize,
    unescaped: &mut Vec<u8>,
) -> Option<TextPlace> {
    let inner = inner(found.json)?;
    if !inner.contains(&b'\\') {
        let start = u32::try_from(found.start + 1).ok()?;
        let bytes = u32::try_from(inner.len()).ok()?;
        let fits = inner.len() <= bytes_max && start < UNESCAPED;
        return fits.then_some(TextPlace { start, bytes });
    }
    let start = unescaped.len();
    let text = append_unescaped(inner, unescaped);
    let bytes = unescaped.len() - start;
    let place = u32::try_from(start).ok().filter(|start| *start < UNESCAPED);
    match (text, place) {
        (Some(()), Some(place)) if bytes <= bytes_max => Some(TextPlace {
            start: place | UNESCAPED,
            bytes: bytes as u32,
        }),
        _ => {
            unescaped.truncate(start);
            None
        }
    }
}

/// Bytes of a number in LEB128.
const fn varint_bytes(number: u32) -> usize {
    match number {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::rowbinary::put_varint;

    #[test]
    fn the_length_of_a_text_takes_as_many_bytes_as_are_written() {
        for number in [0, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, u32::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, u64::from(number));
            assert_eq!(varint_bytes(number), out.len(), "{number}");
        }
    }
}
