//! Timestamps in ISO 8601, as far as clients write it.
//!
//! `YYYY-MM-DD`, then optionally `T`, `t` or a space and `hh:mm[:ss[.f…]]`, then optionally `Z`,
//! `z`, `±hh:mm`, `±hhmm` or `±hh`; or the basic form `YYYYMMDDThhmmss[.f…]` with the same zones.
//! No zone means UTC, no time midnight.

use millrace_rows::Micros;

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Instant that a text names; `None` when it is none of the forms, not in the calendar, or before
/// 1970 in UTC.
pub fn parse(text: &[u8]) -> Option<Micros> {
    if let Some((head, rest)) = text.split_first_chunk()
        && let Some(seconds) = seconds_of_usual(head)
    {
        let mut input = Input(rest);
        let micros = input.fraction()?;
        let zone_seconds = input.zone()?;
        return in_range((seconds - zone_seconds) * MICROS_PER_SECOND + micros);
    }
    parse_any(text)
}

/// Seconds since 1970 of `YYYY-MM-DDThh:mm:ss`, eight characters at once; `None` for all that is
/// written otherwise, or is no such time.
#[inline]
fn seconds_of_usual(text: &[u8; 19]) -> Option<i64> {
    let [year_to_month, day_to_minute, hour_to_second] = [
        (text.first_chunk(), b"0000-00-"),
        (text.get(8..).and_then(<[u8]>::first_chunk), b"00T00:00"),
        (text.last_chunk(), b"00:00:00"),
    ]
    .map(|(text, form)| pairs(*text?, *form));
    let [century, _, year, _, _, month, _, _] = year_to_month?;
    let [day, _, _, hour, _, _, minute, _] = day_to_minute?;
    let [.., second, _] = hour_to_second?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let year = i64::from(century) * 100 + i64::from(year);
    let days = days_since_epoch(year, i64::from(month), i64::from(day))?;
    let [hour, minute, second] = [hour, minute, second].map(i64::from);
    Some(days * SECONDS_PER_DAY + (hour * 60 + minute) * 60 + second)
}

/// Numbers that the digits at each place of a text and behind it are, if it has digits where the
/// form has `0`, and is the form elsewhere. Places without two digits do not count.
#[inline]
fn pairs(text: [u8; 8], form: [u8; 8]) -> Option<[u8; 8]> {
    // Digits become their values, all else 0 if it is as it should be.
    let values = u64::from_le_bytes(text) ^ u64::from_le_bytes(form);
    // A value that is too much for its place reaches its highest bit.
    let limits = form.map(|byte| if byte == b'0' { 0x76 } else { 0x7f });
    let excess = values.wrapping_add(u64::from_le_bytes(limits)) | values;
    if excess & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    Some((values.wrapping_mul(10).wrapping_add(values >> 8)).to_le_bytes())
}

fn parse_any(text: &[u8]) -> Option<Micros> {
    let mut input = Input(text);
    let year = input.digits(4)?;
    let is_extended = input.take(b'-');
    let month = input.digits(2)?;
    if is_extended && !input.take(b'-') {
        return None;
    }
    let day = input.digits(2)?;
    let days = days_since_epoch(year, month, day)?;
    let micros_of_day = match input.first() {
        None if is_extended => return in_range(days * SECONDS_PER_DAY * MICROS_PER_SECOND),
        Some(b'T' | b't') => input.time(is_extended)?,
        Some(b' ') if is_extended => input.time(is_extended)?,
        _ => return None,
    };
    let zone_seconds = input.zone()?;
    in_range((days * SECONDS_PER_DAY - zone_seconds) * MICROS_PER_SECOND + micros_of_day)
}

fn in_range(micros: i64) -> Option<Micros> {
    (micros >= 0).then_some(Micros(micros))
}

/// Rest of a text that is being read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    #[inline]
    fn first(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn advance(&mut self, bytes: usize) {
        self.0 = self.0.get(bytes..).unwrap_or_default();
    }

    #[inline]
    fn take(&mut self, byte: u8) -> bool {
        let found = self.first() == Some(byte);
        if found {
            self.advance(1);
        }
        found
    }

    /// Reads a number of exactly so many digits.
    #[inline]
    fn digits(&mut self, count: usize) -> Option<i64> {
        let digits = self.0.get(..count)?;
        let mut value = 0;
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + i64::from(digit);
        }
        self.advance(count);
        Some(value)
    }

    /// Reads the separator and the time after it: microseconds since midnight.
    fn time(&mut self, is_extended: bool) -> Option<i64> {
        self.advance(1);
        let hour = self.digits(2)?;
        if is_extended && !self.take(b':') {
            return None;
        }
        let minute = self.digits(2)?;
        let has_second = if is_extended { self.take(b':') } else { true };
        let (mut second, mut micros) = (0, 0);
        if has_second {
            second = self.digits(2)?;
            micros = self.fraction()?;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        if second == 60 {
            // A leap second: the last instant before it that the table can hold.
            (second, micros) = (59, MICROS_PER_SECOND - 1);
        }
        Some(((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + micros)
    }

    /// Reads any number of digits behind `.` or `,`, cut to microseconds.
    fn fraction(&mut self) -> Option<i64> {
        // As JavaScript writes it.
        if let [b'.', digits @ .., b'Z'] = self.0
            && let [a, b, c] = digits
            && [a, b, c].iter().all(|digit| digit.is_ascii_digit())
        {
            self.advance(4);
            let [a, b, c] = [a, b, c].map(|digit| i64::from(*digit - b'0'));
            return Some((a * 100 + b * 10 + c) * 1_000);
        }
        if !(self.take(b'.') || self.take(b',')) {
            return Some(0);
        }
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let kept = self.digits(count.min(6)).filter(|_| count > 0)?;
        self.advance(count.saturating_sub(6));
        let scale = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
        Some(kept * scale.get(count.min(6)).copied().unwrap_or(1))
    }

    /// Reads the zone, which must end the text: seconds east of UTC.
    fn zone(&mut self) -> Option<i64> {
        let sign = match self.first() {
            None => return Some(0),
            Some(b'Z' | b'z') => {
                self.advance(1);
                return self.0.is_empty().then_some(0);
            }
            Some(b'+') => 1,
            Some(b'-') => -1,
            Some(_) => return None,
        };
        self.advance(1);
        let hours = self.digits(2)?;
        let minutes = match (self.take(b':'), self.0.is_empty()) {
            (false, true) => 0,
            _ => self.digits(2)?,
        };
        let is_valid = hours <= 23 && minutes <= 59 && self.0.is_empty();
        is_valid.then_some(sign * (hours * 60 + minutes) * 60)
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, by Howard Hinnant's `days_from_civil`
/// (<https://howardhinnant.github.io/date_algorithms.html>); `None` for 30 February.
#[inline]
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return None,
    };
    if day < 1 || day > days_in_month {
        return None;
    }
    let year_from_march = year - i64::from(month <= 2);
    let era = year_from_march.div_euclid(400);
    let year_of_era = year_from_march.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use jiff::civil::{self, DateTime};
    use proptest::prelude::*;

    const EPOCH: DateTime = civil::datetime(1970, 1, 1, 0, 0, 0, 0);

    /// Microseconds since 1970 of a time in UTC. In jiff only civil times reach the end of 9999.
    fn micros_of(text: &str) -> i64 {
        let at: DateTime = text.strip_suffix('Z').unwrap().parse().unwrap();
        i64::try_from(at.duration_since(EPOCH).as_micros()).unwrap()
    }

    #[test]
    fn every_accepted_form_names_its_instant() {
        let table = [
            ("2023-01-02", "2023-01-02T00:00:00Z"),
            ("2023-01-02T03:04", "2023-01-02T03:04:00Z"),
            ("2023-01-02t03:04:05", "2023-01-02T03:04:05Z"),
            ("2023-01-02 03:04:05", "2023-01-02T03:04:05Z"),
            ("2023-01-02T03:04Z", "2023-01-02T03:04:00Z"),
            ("2023-01-02T03:04:05z", "2023-01-02T03:04:05Z"),
            ("2023-01-02T03:04:05.6Z", "2023-01-02T03:04:05.6Z"),
            ("2023-01-02T03:04:05,678Z", "2023-01-02T03:04:05.678Z"),
            (
                "2023-01-02T03:04:05.123456789Z",
                "2023-01-02T03:04:05.123456Z",
            ),
            (
                "2023-01-02T03:04:05.9999999999999999999999",
                "2023-01-02T03:04:05.999999Z",
            ),
            ("2023-01-02T03:04:05+05:30", "2023-01-01T21:34:05Z"),
            ("2023-01-02T03:04:05-0530", "2023-01-02T08:34:05Z"),
            ("2023-01-02 03:04:05+03", "2023-01-02T00:04:05Z"),
            ("2023-01-02T03:04-03", "2023-01-02T06:04:00Z"),
            ("20230102T030405Z", "2023-01-02T03:04:05Z"),
            ("20230102T030405.5+0100", "2023-01-02T02:04:05.5Z"),
            ("20230102t030405", "2023-01-02T03:04:05Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999999Z"),
            ("2016-12-31T23:59:60.5Z", "2016-12-31T23:59:59.999999Z"),
            ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00Z"),
            ("2000-02-29", "2000-02-29T00:00:00Z"),
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
            ("1969-12-31T23:30:00-01:00", "1970-01-01T00:30:00Z"),
            ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ];
        for (text, instant) in table {
            assert_eq!(
                parse(text.as_bytes()),
                Some(Micros(micros_of(instant))),
                "{text}"
            );
        }
    }

    #[test]
    fn every_other_form_is_refused() {
        let table = [
            "",
            " ",
            "2023",
            "2023-01",
            "20230102",
            "2023-1-2",
            "2023-01-02Z",
            "2023-01-02+01:00",
            "2023-01-02T",
            "2023-01-02T03",
            "2023-01-02T3:04",
            "2023-01-02T03:04:",
            "2023-01-02T03:04:5",
            "2023-01-02T03:04:05.",
            "2023-01-02T03:04:05.Z",
            "2023-01-02T03:04.5",
            "2023-01-02T24:00:00Z",
            "2023-01-02T03:60:00Z",
            "2023-01-02T03:04:61Z",
            "2023-02-29",
            "2023-02-30",
            "1900-02-29",
            "2023-04-31",
            "2023-00-01",
            "2023-13-01",
            "2023-01-00",
            "2023-01-32",
            "2023-01-02T03:04:05 Z",
            "2023-01-02T03:04:05ZZ",
            "2023-01-02T03:04:05+1",
            "2023-01-02T03:04:05+01:",
            "2023-01-02T03:04:05+01:0",
            "2023-01-02T03:04:05+24:00",
            "2023-01-02T03:04:05+01:60",
            "2023-01-02T03:04:05+01:00x",
            "2023-01-02T03:04:05 UTC",
            "20230102T03:04:05Z",
            "20230102 030405Z",
            "20230102T0304Z",
            "2023-0102T030405Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:30:00+01:00",
            "0000-01-01",
            "01/02/2023",
            "1672628645",
            "1672628645000",
            "-2023-01-02",
            "+002023-01-02",
            "2023-01-02T03:04:05\u{2212}01:00",
            "２０23-01-02",
            "2023-W01-1",
            "2023-01-02T03:04:05.١",
        ];
        for text in table {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_jiff(seconds in 0_i64..253_402_300_799, micros in 0_i64..1_000_000) {
            let micros = seconds * MICROS_PER_SECOND + micros;
            let text = format!("{}Z", EPOCH + SignedDuration::from_micros(micros));
            prop_assert_eq!(parse(text.as_bytes()), Some(Micros(micros)));
        }

        #[test]
        fn the_usual_form_is_read_like_any(
            head in "(19|20)[0-9]{2}-[0-3][0-9]-[0-3][0-9][Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]",
            tail in "([.,][0-9]{0,9})?(Z|z|[+-][0-9]{2}:?[0-9]{2}|.{0,3})",
            at in any::<prop::sample::Index>(),
            byte in prop::option::weighted(0.3, any::<u8>()),
        ) {
            let mut text = (head + &tail).into_bytes();
            if let Some(byte) = byte {
                let at = at.index(text.len());
                text[at] = byte;
            }
            prop_assert_eq!(parse(&text), parse_any(&text));
        }

        #[test]
        fn no_text_makes_the_timestamp_parser_panic(text in "[0-9TtZz:.,+ -]{0,40}") {
            parse(text.as_bytes());
        }
    }
}
