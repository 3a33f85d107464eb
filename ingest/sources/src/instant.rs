//! Parses times as sources write them: in ISO 8601, or as a number since 1970.

use crate::RecordError;
use jiff::civil::DateTime;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use millrace_rows::Micros;

const PARSER: DateTimeParser = DateTimeParser::new();
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Parses a date and a time, with `T` or a space between them, and `Z`, ` UTC` or an offset after
/// them; without these it is in the given zone. A date alone is its midnight. Times before 1970 are
/// `None`, as the server refuses them.
pub(crate) fn iso(text: &str, zone: &TimeZone) -> Option<Micros> {
    let text = text.trim();
    let text = text
        .strip_suffix(" UTC")
        .map_or(text.into(), |naive| format!("{naive}Z").into());
    let text: &str = &text as &std::borrow::Cow<'_, str>;
    let after_date = text.as_bytes().get(10..).unwrap_or_default();
    let has_offset = after_date
        .iter()
        .any(|byte| matches!(byte, b'Z' | b'z' | b'+' | b'-'));
    let at = if has_offset {
        PARSER.parse_timestamp(text).ok()?
    } else {
        let local = PARSER.parse_datetime(text).ok()?;
        return in_zone(local, zone);
    };
    in_range(at.as_microsecond())
}

/// Instant at which clocks of a zone show a time. Of two instants, when clocks went back, the
/// first; when clocks skipped the time, the instant is later by the skipped span.
fn in_zone(local: DateTime, zone: &TimeZone) -> Option<Micros> {
    let at = zone.to_timestamp(local).ok()?;
    in_range(at.as_microsecond())
}

/// Corrects an instant that was read as UTC from a clock that shows the zone's time.
pub(crate) fn shifted(at: Micros, zone: &TimeZone) -> Option<Micros> {
    let read = jiff::Timestamp::from_microsecond(at.0).ok()?;
    in_zone(TimeZone::UTC.to_datetime(read), zone)
}

/// Parses a number since 1970. Its size decides the unit: to 10^10 seconds, to 10^14 milliseconds,
/// to 10^17 microseconds, beyond nanoseconds. Digits after a point are kept to microseconds.
pub(crate) fn epoch(number: &str) -> Option<Micros> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (number, ""),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 19 || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let value: u64 = whole.parse().ok()?;
    let micros_per_unit: u64 = match value {
        0..=10_000_000_000 => 1_000_000,
        10_000_000_001..=99_999_999_999_999 => 1_000,
        100_000_000_000_000..=99_999_999_999_999_999 => 1,
        _ => return in_range(i64::try_from(value / 1_000).ok()?),
    };
    let fraction = format!("{fraction:0<6.6}").parse::<u64>().ok()?;
    let micros =
        value * micros_per_unit + fraction * micros_per_unit / MICROS_PER_SECOND.unsigned_abs();
    in_range(i64::try_from(micros).ok()?)
}

/// Refuses times before 1970 and after the year 9999, the last that our events can be written with.
pub(crate) fn in_range(micros: i64) -> Option<Micros> {
    (0..=253_402_300_799_999_999)
        .contains(&micros)
        .then_some(Micros(micros))
}

/// Error for an invalid time.
pub(crate) fn invalid(field: &'static str, text: &str) -> RecordError {
    let shown: String = text.chars().take(60).collect();
    RecordError::new(
        "invalid_timestamp",
        Some(field),
        format!("`{field}` is {shown:?}, which is not a time since 1970. Correct it in the file."),
    )
}

/// Error for a record without a time, which is never replaced by the current one.
pub(crate) fn missing(field: &'static str) -> RecordError {
    RecordError::new(
        "missing_timestamp",
        Some(field),
        format!("The record does not say when it happened: it has no `{field}`."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn iso_texts_are_parsed_in_their_zone() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let table = [
            (
                "2023-10-15 14:30:00",
                &TimeZone::UTC,
                Some(1_697_380_200_000_000),
            ),
            (
                "2023-10-15 14:30:00.123456",
                &TimeZone::UTC,
                Some(1_697_380_200_123_456),
            ),
            (
                "2023-10-15T14:30:00.123456789Z",
                &berlin,
                Some(1_697_380_200_123_456),
            ),
            (
                "2023-10-15T14:30:00+0200",
                &TimeZone::UTC,
                Some(1_697_373_000_000_000),
            ),
            (
                "2023-10-15 14:30:00-03",
                &TimeZone::UTC,
                Some(1_697_391_000_000_000),
            ),
            (
                "2023-10-15 14:30:00.5 UTC",
                &berlin,
                Some(1_697_380_200_500_000),
            ),
            ("2023-10-15 14:30", &berlin, Some(1_697_373_000_000_000)),
            ("2023-10-15", &TimeZone::UTC, Some(1_697_328_000_000_000)),
            // Clocks went back at three, and forward at two.
            ("2023-10-29 02:30:00", &berlin, Some(1_698_539_400_000_000)),
            ("2023-03-26 02:30:00", &berlin, Some(1_679_794_200_000_000)),
            ("1969-12-31 23:59:59", &TimeZone::UTC, None),
            ("2023-02-30", &TimeZone::UTC, None),
            ("15/10/2023", &TimeZone::UTC, None),
            ("yesterday", &TimeZone::UTC, None),
            ("", &TimeZone::UTC, None),
        ];
        for (text, zone, micros) in table {
            assert_eq!(iso(text, zone), micros.map(Micros), "{text}");
        }
    }

    #[test]
    fn the_size_of_a_number_decides_its_unit() {
        let table = [
            ("0", Some(0)),
            ("1697379000", Some(1_697_379_000_000_000)),
            ("10000000000", Some(10_000_000_000_000_000)),
            ("1697379000.123456789", Some(1_697_379_000_123_456)),
            ("1697379000123", Some(1_697_379_000_123_000)),
            ("1697379000123.4", Some(1_697_379_000_123_400)),
            ("1697379000123456", Some(1_697_379_000_123_456)),
            ("1697379000123456789", Some(1_697_379_000_123_456)),
            ("1697379000.", Some(1_697_379_000_000_000)),
            ("-1", None),
            ("1e9", None),
            ("99999999999999999999", None),
            ("", None),
            (".5", None),
        ];
        for (number, micros) in table {
            assert_eq!(epoch(number), micros.map(Micros), "{number}");
        }
    }

    #[test]
    fn a_local_time_read_as_utc_is_corrected() {
        let los_angeles = TimeZone::get("America/Los_Angeles").unwrap();
        let table = [
            // Seven hours in summer, eight in winter, with fractions of a second.
            (1_688_212_800_123_000, 1_688_238_000_123_000),
            (1_673_000_000_000_000, 1_673_028_800_000_000),
        ];
        for (read, right) in table {
            assert_eq!(shifted(Micros(read), &los_angeles), Some(Micros(right)));
        }
        assert_eq!(shifted(Micros(5), &TimeZone::UTC), Some(Micros(5)));
    }

    proptest! {
        #[test]
        fn a_written_time_is_parsed_to_itself(micros in 0_i64..253_402_300_799_999_999) {
            let mut text = Vec::new();
            crate::time::write(&mut text, Micros(micros));
            let text = String::from_utf8(text).unwrap();
            prop_assert_eq!(iso(&text, &TimeZone::UTC), Some(Micros(micros)));
        }

        #[test]
        fn no_text_makes_the_time_parser_panic(text in "\\PC{0,40}", number in "[0-9.e+-]{0,30}") {
            let _ = (iso(&text, &TimeZone::UTC), epoch(&number));
        }
    }
}
