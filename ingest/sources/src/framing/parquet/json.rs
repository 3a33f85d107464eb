//! Writes rows as JSON, and bounds the length of a row before it is written.

use super::times;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch};
use arrow_json::writer::{LineDelimited, NullableEncoder, WriterBuilder};
use arrow_json::{Encoder, EncoderFactory, EncoderOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use std::sync::Arc;

/// Most bytes that JSON takes for a byte of text: a control character is `\u0000`.
const ESCAPED_BYTES: u64 = 6;
/// Upper bound on the bytes of a time or decimal number.
const VALUE_BYTES: u64 = 96;
/// Upper bound on the bytes of any other number.
const NUMBER_BYTES: u64 = 27;

/// Appends rows as lines.
pub(super) fn write(json: &mut Vec<u8>, rows: &RecordBatch) -> Result<(), ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_encoder_factory(Arc::new(RowEncoders))
        .build::<_, LineDelimited>(json);
    writer.write(rows)?;
    writer.finish()
}

/// Precision of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// By the lengths of texts, as if all were control characters.
    Quick,
    /// By the characters of texts.
    Close,
}

/// Upper bound on the bytes of rows as JSON.
pub(super) fn bytes_max(rows: &RecordBatch, bound: Bound) -> u64 {
    let schema = rows.schema();
    fields_bytes(schema.fields(), rows.columns(), rows.num_rows(), bound)
}

/// Upper bound on the bytes of a column's values.
pub(super) fn column_bytes_max(rows: &RecordBatch, column: usize) -> u64 {
    rows.columns()
        .get(column)
        .map_or(0, |column| values_bytes(column, Bound::Quick))
}

fn fields_bytes(fields: &Fields, columns: &[ArrayRef], rows: usize, bound: Bound) -> u64 {
    let names: u64 = fields
        .iter()
        .map(|field| ESCAPED_BYTES * field.name().len() as u64 + 4)
        .sum();
    let values: u64 = columns
        .iter()
        .map(|column| values_bytes(column, bound))
        .sum();
    names.saturating_mul(rows as u64).saturating_add(values)
}

fn values_bytes(values: &dyn Array, bound: Bound) -> u64 {
    let count = values.len() as u64;
    match values.data_type() {
        DataType::Utf8View => {
            let texts = values.as_string_view();
            match bound {
                Bound::Quick => views_bytes(texts.views()),
                Bound::Close => texts
                    .iter()
                    .flatten()
                    .map(|it| text_bytes(it.as_bytes()))
                    .sum(),
            }
        }
        DataType::BinaryView => {
            let texts = values.as_binary_view();
            match bound {
                Bound::Quick => views_bytes(texts.views()),
                Bound::Close => texts.iter().flatten().map(text_bytes).sum(),
            }
        }
        DataType::FixedSizeBinary(width) => count * (2 * u64::from(width.unsigned_abs()) + 4),
        DataType::List(_) => {
            let list = values.as_list::<i32>();
            let elements = within(list.values(), list.offsets());
            values_bytes(&elements, bound) + 4 * count
        }
        DataType::Map(_, _) => {
            let map = values.as_map();
            let keys = within(map.keys(), map.offsets());
            let values = within(map.values(), map.offsets());
            values_bytes(&keys, bound) + values_bytes(&values, bound) + 4 * count
        }
        DataType::Struct(fields) => {
            let columns = values.as_struct().columns();
            fields_bytes(fields, columns, values.len(), bound) + 4 * count
        }
        number if number.is_integer() || number.is_floating() => NUMBER_BYTES * count,
        _ => VALUE_BYTES * count,
    }
}

/// Bytes of a text in JSON, or of bytes that are no text.
fn text_bytes(bytes: &[u8]) -> u64 {
    let escaped: u64 = bytes
        .iter()
        .map(|byte| match byte {
            0..0x20 => ESCAPED_BYTES,
            b'"' | b'\\' | 0x80.. => 2,
            _ => 1,
        })
        .sum();
    escaped + 4
}

/// Slices the elements that lists refer to: a slice of lists keeps the whole array of elements.
fn within(elements: &ArrayRef, offsets: &[i32]) -> ArrayRef {
    let index = |offset: Option<&i32>| offset.map_or(0, |offset| offset.unsigned_abs() as usize);
    let (start, end) = (index(offsets.first()), index(offsets.last()));
    elements.slice(start, end.saturating_sub(start))
}

/// Sums the bounds of texts by their views, whose lowest 32 bits are the length.
fn views_bytes(views: &[u128]) -> u64 {
    let length = |view: &u128| (view & u128::from(u32::MAX)) as u64;
    let escaped = views.iter().map(|view| ESCAPED_BYTES * length(view) + 4);
    escaped.fold(0, u64::saturating_add)
}

/// Encoders for times, and for bytes that are not annotated as text: many writers store texts so.
#[derive(Debug)]
struct RowEncoders;

impl EncoderFactory for RowEncoders {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let Some(array) = array.as_binary_view_opt() else {
            return times::encoder(field, array);
        };
        let nulls = array.nulls().cloned();
        Ok(Some(NullableEncoder::new(
            Box::new(TextOrHex(array)),
            nulls,
        )))
    }
}

/// Encodes bytes as text if they are UTF-8, or as two hex digits for each byte.
struct TextOrHex<'a>(&'a BinaryViewArray);

impl Encoder for TextOrHex<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = self.0.value(index);
        if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
            // Writing a text to memory does not fail.
            let _ = serde_json::to_writer(out, text);
            return;
        }
        out.push(b'"');
        for byte in bytes {
            let digits = [byte >> 4, byte & 0x0f].map(usize::from);
            out.extend(digits.iter().filter_map(|digit| DIGITS.get(*digit)));
        }
        out.push(b'"');
    }
}
