//! Times of texts as in RFC 3339.

/// Years of which there are times: with every offset they are within what ClickHouse keeps.
const YEARS: std::ops::RangeInclusive<i64> = 1971..=2298;
/// Digits of a microsecond.
const DIGITS: usize = 6;
/// Most digits of a second's fraction.
const DIGITS_MAX: usize = 9;

/// Parses a time, in microseconds since 1970; `None` of another text, and of other years.
pub(super) fn micros(text: &[u8]) -> Option<i64> {
    let (day, rest) = text.split_at_checked(10)?;
    let (time, rest) = rest.strip_prefix(b"T")?.split_at_checked(8)?;
    let [year, month, day] = [
        number(day.get(..4)?)?,
        after(day.get(4..7)?, b'-')?,
        after(day.get(7..)?, b'-')?,
    ];
    let [hour, minute, second] = [
        number(time.get(..2)?)?,
        after(time.get(2..5)?, b':')?,
        after(time.get(5..)?, b':')?,
    ];
    let is_time = hour < 24 && minute < 60 && second < 60;
    let is_day = YEARS.contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day);
    if !is_time || !is_day {
        return None;
    }
    let (fraction, zone) = fraction(rest)?;
    let minutes = offset_minutes(zone)?;
    let seconds = ((days_before(year, month) + day - 1) * 24 + hour) * 3_600 + minute * 60 + second;
    Some((seconds - minutes * 60) * 1_000_000 + fraction)
}

/// Splits off the fraction of a second, if there is one, in microseconds.
fn fraction(rest: &[u8]) -> Option<(i64, &[u8])> {
    let Some(digits) = rest.strip_prefix(b".") else {
        return Some((0, rest));
    };
    let count = digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if !(1..=DIGITS_MAX).contains(&count) {
        return None;
    }
    let (digits, zone) = digits.split_at_checked(count)?;
    let kept = digits.get(..count.min(DIGITS))?;
    let scale = 10_i64.pow((DIGITS - kept.len()) as u32);
    Some((number(kept)? * scale, zone))
}

fn offset_minutes(zone: &[u8]) -> Option<i64> {
    let (sign, rest) = match zone.split_first()? {
        (b'Z', []) => return Some(0),
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = (number(rest.get(..2)?)?, after(rest.get(2..)?, b':')?);
    (rest.len() == 5 && hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

/// Number behind a mark.
fn after(bytes: &[u8], mark: u8) -> Option<i64> {
    let (first, digits) = bytes.split_first()?;
    match *first == mark {
        true => number(digits),
        false => None,
    }
}

/// Number of digits.
fn number(digits: &[u8]) -> Option<i64> {
    let mut number = 0_i64;
    for digit in digits {
        let digit = char::from(*digit).to_digit(10)?;
        number = number.checked_mul(10)?.checked_add(i64::from(digit))?;
    }
    (!digits.is_empty()).then_some(number)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970 to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let years = year - 1970;
    // Leap days of the years before, counted from those before 1970.
    let before = year - 1;
    let leap_days =
        (before / 4 - before / 100 + before / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months = (1..month).map(|month| days_of(year, month));
    years * 365 + leap_days + months.sum::<i64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_795_176_000_000_000;

    #[test]
    fn a_time_is_that_of_its_offset_with_what_follows_microseconds_cut() {
        let table = [
            ("2026-11-20T12:00:00Z", NOON),
            ("2026-11-20T12:00:00.5Z", NOON + 500_000),
            ("2026-11-20T12:00:00.123456789Z", NOON + 123_456),
            ("2026-11-20T14:30:00+02:30", NOON),
            ("2026-11-19T23:00:00.000001-13:00", NOON + 1),
            ("1971-01-01T00:00:00Z", 365 * 86_400_000_000),
            ("2000-02-29T00:00:00Z", 951_782_400_000_000),
            ("2298-12-31T23:59:59Z", 10_382_255_999_000_000),
        ];
        for (text, expected) in table {
            assert_eq!(micros(text.as_bytes()), Some(expected), "{text}");
        }
    }

    #[test]
    fn another_text_is_no_time() {
        for text in [
            "",
            "2026-11-20",
            "2026-11-20T12:00:00",
            "2026-11-20 12:00:00Z",
            "2026-11-20t12:00:00z",
            "2026-11-20T12:00:00.Z",
            "2026-11-20T12:00:00.1234567890Z",
            "2026-11-20T12:00:00Z ",
            "2026-11-20T12:00:00+2:00",
            "2026-11-20T12:00:00+02:60",
            "2026-11-20T12:00:00+24:00",
            "2026-11-20T12:00:00+02:99999999999999999999",
            "2026-11-20T24:00:00Z",
            "2026-11-20T12:00:60Z",
            "2026-13-20T12:00:00Z",
            "2026-00-20T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "2100-02-29T12:00:00Z",
            "2026-11-31T12:00:00Z",
            "1970-12-31T23:59:59Z",
            "2299-01-01T00:00:00Z",
            "+026-11-20T12:00:00Z",
            "20261120T120000Z",
        ] {
            assert_eq!(micros(text.as_bytes()), None, "{text}");
        }
    }
}
