//! Target `timestamp`: reads timestamps and compares with jiff's calendar and its parser.

use jiff::Timestamp;
use jiff::civil::{Date, Time};

/// Reads a timestamp as the parser does and as the reference does.
///
/// # Panics
///
/// If they differ, or if jiff reads a text in the form of RFC 3339 and we do not.
pub fn timestamp(data: &[u8]) {
    let ours = millrace_parse::testing::timestamp(data).map(|at| at.0);
    let text = std::str::from_utf8(data).unwrap_or_default();
    assert_eq!(ours, reference(text), "{text:?}");
    // jiff reads other forms, too, and not all of this one: its timestamps end a day before the
    // year 9999 does, and fractions at nanoseconds.
    if is_rfc3339(text)
        && let Ok(at) = text.parse::<Timestamp>()
    {
        let micros = (at.as_nanosecond().div_euclid(1_000)) as i64;
        let expected = (micros >= 0).then_some(micros);
        assert_eq!(ours, expected, "{text:?} as RFC 3339");
    }
}

/// Tells the form of RFC 3339, without leap seconds: they are not in the calendar, and jiff takes
/// the second before, where we take its last microsecond.
fn is_rfc3339(text: &str) -> bool {
    let forms = [
        "dddd-dd-ddTdd:dd:dd",
        "dddd-dd-ddtdd:dd:dd",
        "dddd-dd-dd dd:dd:dd",
    ];
    if !forms.iter().any(|form| digits(text, form).is_some()) || &text[17..19] == "60" {
        return false;
    }
    let Some((_, zone)) = fraction(&text[19..], true) else {
        return false;
    };
    let is_offset = ["+dd:dd", "-dd:dd"]
        .iter()
        .any(|form| digits(zone, form).is_some() && zone.len() == form.len());
    // jiff takes offsets of a day and more, which the RFC does not have.
    (is_offset && &zone[1..3] < "24") || matches!(zone, "Z" | "z")
}

/// Microseconds since 1970 of a text in one of the contract's forms; `None` if it has none of
/// them, is not in the calendar, or before 1970.
pub(crate) fn reference(text: &str) -> Option<i64> {
    let (date, rest) = digits(text, "dddd-dd-dd")
        .map(|date| (date, &text[10..]))
        .or_else(|| Some((digits(text, "dddddddd")?, &text[8..])))?;
    let is_extended = text.as_bytes()[4] == b'-';
    let (year, month, day) = (&date[..4], &date[4..6], &date[6..8]);
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    if rest.is_empty() && is_extended {
        return instant(date, Time::midnight(), 0);
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
    let (hour, minute, second): (i8, i8, i8) = (
        time[..2].parse().ok()?,
        time[2..4].parse().ok()?,
        time[4..6].parse().ok()?,
    );
    // A leap second: the last instant before it.
    let (second, micros) = match second {
        60 => (59, 999_999),
        second => (second, micros),
    };
    let time = Time::new(hour, minute, second, micros * 1_000).ok()?;
    instant(date, time, offset_minutes(rest)?)
}

fn instant(date: Date, time: Time, offset_minutes: i64) -> Option<i64> {
    // In zones west of UTC the last hours of the year 9999 are beyond the calendar.
    let epoch = jiff::civil::date(1970, 1, 1).at(0, 0, 0, 0);
    let local = date.to_datetime(time).duration_since(epoch).as_micros() as i64;
    let micros = local - offset_minutes * 60_000_000;
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
fn fraction(text: &str, is_allowed: bool) -> Option<(i32, &str)> {
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

fn offset_minutes(text: &str) -> Option<i64> {
    if matches!(text, "" | "Z" | "z") {
        return Some(0);
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
    let hours: i64 = digits[..2].parse().ok()?;
    let minutes: i64 = digits.get(2..4).unwrap_or("00").parse().ok()?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    Some(sign * (hours * 60 + minutes))
}
