//! Writes times as JSON, also those outside the calendar.
//!
//! Columns use numbers for "never" and "no end" that are in no year which the library knows. It
//! writes an error message in place of such a value, with unescaped quotes if the column has a time
//! zone, so that the whole row is no JSON. Here such a value becomes a text of its number and unit.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_json::writer::{NullableEncoder, make_encoder};
use arrow_json::{Encoder, EncoderOptions};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use std::io::Write as _;
use std::sync::LazyLock;

/// Beginning of the library's error messages.
const MESSAGE: &[u8] = b"\"ERROR";

static OPTIONS: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

/// Encoder of a column of times; `None` for other columns.
pub(super) fn encoder<'a>(
    field: &'a FieldRef,
    array: &'a dyn Array,
) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
    let Some((number, unit)) = numbers(array) else {
        return Ok(None);
    };
    let encoder = TimeEncoder {
        encoder: make_encoder(field, array, &OPTIONS)?,
        number,
        unit,
    };
    let nulls = array.nulls().cloned();
    Ok(Some(NullableEncoder::new(Box::new(encoder), nulls)))
}

type Number<'a> = Box<dyn Fn(usize) -> i64 + 'a>;

/// Numbers of a column of times as they are in the file, with their unit.
fn numbers(array: &dyn Array) -> Option<(Number<'_>, &'static str)> {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Some(match array.data_type() {
        Date32 => (number::<Date32Type>(array), "days"),
        Date64 => (number::<Date64Type>(array), "ms"),
        Time32(Second) => (number::<Time32SecondType>(array), "s"),
        Time32(_) => (number::<Time32MillisecondType>(array), "ms"),
        Time64(Nanosecond) => (number::<Time64NanosecondType>(array), "ns"),
        Time64(_) => (number::<Time64MicrosecondType>(array), "us"),
        Timestamp(Second, _) => (number::<TimestampSecondType>(array), "s"),
        Timestamp(Millisecond, _) => (number::<TimestampMillisecondType>(array), "ms"),
        Timestamp(Microsecond, _) => (number::<TimestampMicrosecondType>(array), "us"),
        Timestamp(Nanosecond, _) => (number::<TimestampNanosecondType>(array), "ns"),
        _ => return None,
    })
}

fn number<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array) -> Number<'_> {
    let array = array.as_primitive::<T>();
    Box::new(move |index| array.value(index).into())
}

struct TimeEncoder<'a> {
    encoder: NullableEncoder<'a>,
    number: Number<'a>,
    unit: &'static str,
}

impl Encoder for TimeEncoder<'_> {
    fn encode(&mut self, index: usize, out: &mut Vec<u8>) {
        let start = out.len();
        self.encoder.encode(index, out);
        if out
            .get(start..)
            .is_some_and(|text| text.starts_with(MESSAGE))
        {
            out.truncate(start);
            // Writing to memory does not fail.
            let _ = write!(out, "\"{} {}\"", (self.number)(index), self.unit);
        }
    }
}
