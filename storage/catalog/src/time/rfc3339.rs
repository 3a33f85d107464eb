//! Grammar of RFC 3339: `2026-11-20T14:00:00.5+01:00`.
//!
//! As the RFC allows, `z` may be lower case and any byte may stand between date and time.

use super::cursor::Cursor;
use super::local::{Clock, LocalTime};
use jiff::civil::Date;

/// Digits of a second's fraction that are kept.
const FRACTION_DIGITS: u32 = 9;

/// Parses a text; `None` for other texts, and for dates that are not in the calendar.
pub(super) fn parse(text: &str) -> Option<LocalTime> {
    let mut rest = Cursor::new(text);
    let date = date(&mut rest)?;
    rest.any()?;
    let clock = clock(&mut rest)?;
    let offset_minutes = offset_minutes(&mut rest)?;
    rest.end()?;
    Some(LocalTime {
        date,
        clock,
        offset_minutes,
    })
}

fn date(rest: &mut Cursor<'_>) -> Option<Date> {
    let year = i16::try_from(rest.digits(4)?).ok()?;
    rest.literal(b'-')?;
    let month = rest.pair()?;
    rest.literal(b'-')?;
    Date::new(year, month, rest.pair()?).ok()
}

fn clock(rest: &mut Cursor<'_>) -> Option<Clock> {
    let hour = rest.pair()?;
    rest.literal(b':')?;
    let minute = rest.pair()?;
    rest.literal(b':')?;
    let second = rest.pair()?;
    let nanosecond = match rest.literal(b'.') {
        Some(()) => fraction_nanos(rest)?,
        None => 0,
    };
    Some(Clock {
        hour,
        minute,
        second,
        nanosecond,
    })
}

/// Reads at least one digit of a fraction, and cuts those beyond nanoseconds.
fn fraction_nanos(rest: &mut Cursor<'_>) -> Option<i32> {
    let mut worth = 10_i32.pow(FRACTION_DIGITS - 1);
    let mut nanos = i32::from(rest.digit()?) * worth;
    while let Some(digit) = rest.digit() {
        worth /= 10;
        nanos += i32::from(digit) * worth;
    }
    Some(nanos)
}

fn offset_minutes(rest: &mut Cursor<'_>) -> Option<i32> {
    if rest.literal(b'Z').or_else(|| rest.literal(b'z')).is_some() {
        return Some(0);
    }
    let sign = rest.sign()?;
    let hours = rest.digits(2).filter(|hours| *hours <= 23)?;
    rest.literal(b':')?;
    let minutes = rest.digits(2).filter(|minutes| *minutes <= 59)?;
    Some(sign * (hours * 60 + minutes))
}
