//! Target `timestamp`: reads timestamps and compares with the calendar of the `time` crate.

use time::format_description::well_known::Rfc3339;
use time::{Date, Month, OffsetDateTime, Time, UtcOffset};

/// Reads a timestamp as the parser does and as the reference does.
///
/// # Panics
///
/// If they differ, or if the `time` crate reads it as RFC 3339 and we do not.
pub fn timestamp(data: &[u8]) {
    let ours = millrace_parse::testing::timestamp(data).map(|at| at.0);
    let text = std::str::from_utf8(data).unwrap_or_default();
    assert_eq!(ours, reference(text), "{text:?}");
    if let Ok(at) = OffsetDateTime::parse(text, &Rfc3339) {
        let micros = (at.unix_timestamp_nanos().div_euclid(1_000)) as i64;
        // A leap second is not in the calendar; we take the instant before it, as `time` does.
        let expected = (micros >= 0).then_some(micros);
        // `time` accepts any separator.
        if matches!(data.get(10), Some(b'T' | b't' | b' ')) {
            assert_eq!(ours, expected, "{text:?} as RFC 3339");
        }
    }
}

/// Microseconds since 1970 of a text in one of the contract's forms; `None` if it has none of
/// them, is not in the calendar, or before 1970.
pub(crate) fn reference(text: &str) -> Option<i64> {
    let (date, rest) = digits(text, "dddd-dd-dd")
        .map(|date| (date, &text[10..]))
        .or_else(|| Some((digits(text, "dddddddd")?, &text[8..])))?;
    let is_extended = text.as_bytes()[4] == b'-';
    let (year, month, day) = (&date[..4], &date[4..6], &date[6..8]);
    let month = Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    if rest.is_empty() && is_extended {
        return instant(date, Time::MIDNIGHT, UtcOffset::UTC);
    }
    let rest = match rest.as_bytes().first()? {
        b'T' | b't' => &rest[1..],
        b' ' if is_extended => &rest[1..],
        _ => return None,
    };
    let (time, rest) = if is_extended {
        let with_seconds = digits(rest, "dd:dd:dd").map(|time| (time, &rest[8..]));
        with_seconds.or_else(|| {
            let time = digits(rest, "dd:dd")?;
            (rest.as_bytes().get(5) != Some(&b':')).then(|| (time + "00", &rest[5..]))
        })?
    } else {
        (digits(rest, "dddddd")?, &rest[6..])
    };
    let has_seconds = !is_extended || text.as_bytes().get(16) == Some(&b':');
    let (micros, rest) = fraction(rest, has_seconds)?;
    let (hour, minute, second): (u8, u8, u8) = (
        time[..2].parse().ok()?,
        time[2..4].parse().ok()?,
        time[4..6].parse().ok()?,
    );
    // A leap second: the last instant before it.
    let (second, micros) = match second {
        60 => (59, 999_999),
        second => (second, micros),
    };
    let time = Time::from_hms_micro(hour, minute, second, micros).ok()?;
    instant(date, time, offset(rest)?)
}

fn instant(date: Date, time: Time, offset: UtcOffset) -> Option<i64> {
    // In zones west of UTC the last hours of the year 9999 are beyond the calendar.
    let seconds = date.with_time(time).assume_utc().unix_timestamp();
    let micros =
        (seconds - i64::from(offset.whole_seconds())) * 1_000_000 + i64::from(time.microsecond());
    (micros >= 0).then_some(micros)
}

/// Digits at the start of a text, if the text has this form.
fn digits(text: &str, form: &str) -> Option<String> {
    let start = text.as_bytes().get(..form.len())?;
    let fits = start
        .iter()
        .zip(form.bytes())
        .all(|(byte, form)| match form {
            b'd' => byte.is_ascii_digit(),
            other => *byte == other,
        });
    let digits = start.iter().filter(|byte| byte.is_ascii_digit());
    fits.then(|| digits.map(|byte| char::from(*byte)).collect())
}

/// Splits off the fraction after a point or comma, as microseconds.
fn fraction(text: &str, is_allowed: bool) -> Option<(u32, &str)> {
    let Some(rest) = text.strip_prefix(['.', ',']).filter(|_| is_allowed) else {
        return Some((0, text));
    };
    let end = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(rest.len());
    let padded = format!("{:0<6}", &rest[..end]);
    let micros = padded[..6].parse().ok()?;
    (end > 0).then_some((micros, &rest[end..]))
}

fn offset(text: &str) -> Option<UtcOffset> {
    if matches!(text, "" | "Z" | "z") {
        return Some(UtcOffset::UTC);
    }
    let sign = match text.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let rest = &text[1..];
    let digits = ["dd:dd", "dddd", "dd"]
        .iter()
        .find_map(|form| digits(rest, form).filter(|_| rest.len() == form.len()))?;
    let hours: i8 = digits[..2].parse().ok()?;
    let minutes: i8 = digits.get(2..4).unwrap_or("00").parse().ok()?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    UtcOffset::from_hms(sign * hours, sign * minutes, 0).ok()
}
