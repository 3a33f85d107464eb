//! Grammar of ISO 8601: dates by month, by day of the year and by week, in the basic form
//! (`20261120T140000Z`) or the extended one (`2026-11-20T14:00:00Z`), with a zone.
//!
//! Whether there is a `-` after the year decides the form. Minutes and seconds may be left out,
//! and the last part of the time may have a fraction, after a point or a comma.

use super::cursor::Cursor;
use super::local::{Clock, LocalTime};
use jiff::civil::{Date, ISOWeekDate, Weekday};

const MINUTES_PER_HOUR: f64 = 60.;
const SECONDS_PER_HOUR: f64 = 3_600.;
const SECONDS_PER_MINUTE: f64 = 60.;
const NANOS_PER_SECOND: f64 = 1e9;

/// Parses a text; `None` for other texts, and for dates that are not in the calendar.
pub(super) fn parse(text: &str) -> Option<LocalTime> {
    let mut rest = Cursor::new(text);
    let year = year(&mut rest)?;
    let is_extended = rest.literal(b'-').is_some();
    let date = date(&mut rest, year, is_extended)?;
    rest.literal(b'T')?;
    let clock = clock(&mut rest, is_extended)?;
    let offset_minutes = offset_minutes(&mut rest, is_extended)?;
    rest.end()?;
    Some(LocalTime {
        date,
        clock,
        offset_minutes,
    })
}

/// Reads a year of four digits, or of six after a sign.
fn year(rest: &mut Cursor<'_>) -> Option<i16> {
    let year = match rest.sign() {
        Some(sign) => sign * rest.digits(6)?,
        None => rest.digits(4)?,
    };
    i16::try_from(year).ok()
}

/// Reads a date, in the first of the three ways that fits: later ones are not tried where the
/// calendar has no such date.
fn date(rest: &mut Cursor<'_>, year: i16, is_extended: bool) -> Option<Date> {
    if let Some((month, day)) = rest.attempt(|rest| month_and_day(rest, is_extended)) {
        return Date::new(year, month, day).ok();
    }
    if let Some(day) = rest.digits(3) {
        let day = i16::try_from(day).ok()?;
        let first = Date::new(year, 1, 1).ok()?;
        return first.with().day_of_year(day).build().ok();
    }
    rest.literal(b'W')?;
    let week = rest.pair()?;
    if is_extended {
        rest.literal(b'-')?;
    }
    let weekday = i8::try_from(rest.digit()?).ok()?;
    let weekday = Weekday::from_monday_one_offset(weekday).ok()?;
    Some(ISOWeekDate::new(year, week, weekday).ok()?.date())
}

fn month_and_day(rest: &mut Cursor<'_>, is_extended: bool) -> Option<(i8, i8)> {
    let month = rest.pair().filter(|month| (1..=12).contains(month))?;
    if is_extended {
        rest.literal(b'-')?;
    }
    let day = rest.pair().filter(|day| *day > 0)?;
    Some((month, day))
}

fn clock(rest: &mut Cursor<'_>, is_extended: bool) -> Option<Clock> {
    let (hour, fraction) = number(rest)?;
    if let Some(fraction) = fraction {
        return Some(with_fraction_of_hour(hour, fraction));
    }
    if rest.literal(b':').is_some() && !is_extended {
        return None;
    }
    let Some((minute, fraction)) = number(rest) else {
        let clock = Clock {
            hour,
            ..Clock::default()
        };
        return (!is_extended).then_some(clock);
    };
    if let Some(fraction) = fraction {
        return Some(with_fraction_of_minute(hour, minute, fraction));
    }
    let (second, nanosecond) = if is_extended && rest.literal(b':').is_none() {
        (0, 0)
    } else {
        match number(rest) {
            Some((second, fraction)) => (second, nanos_of_second(fraction)?),
            None if is_extended => return None,
            None => (0, 0),
        }
    };
    Some(Clock {
        hour,
        minute,
        second,
        nanosecond,
    })
}

fn with_fraction_of_hour(hour: i8, fraction: f64) -> Clock {
    Clock {
        hour,
        minute: (fraction * MINUTES_PER_HOUR) as i8,
        second: (fraction * SECONDS_PER_HOUR % SECONDS_PER_MINUTE) as i8,
        nanosecond: (fraction * (SECONDS_PER_HOUR * NANOS_PER_SECOND) % NANOS_PER_SECOND) as i32,
    }
}

fn with_fraction_of_minute(hour: i8, minute: i8, fraction: f64) -> Clock {
    Clock {
        hour,
        minute,
        second: (fraction * SECONDS_PER_MINUTE) as i8,
        nanosecond: (fraction * (SECONDS_PER_MINUTE * NANOS_PER_SECOND) % NANOS_PER_SECOND) as i32,
    }
}

/// Rounds a fraction to nanoseconds; `None` if that is a whole second.
fn nanos_of_second(fraction: Option<f64>) -> Option<i32> {
    let nanos = (fraction.unwrap_or_default() * NANOS_PER_SECOND).round();
    (nanos < NANOS_PER_SECOND).then_some(nanos as i32)
}

/// Reads two digits and the fraction after them, if there is one; takes nothing if it cannot.
fn number(rest: &mut Cursor<'_>) -> Option<(i8, Option<f64>)> {
    rest.attempt(|rest| {
        let whole = rest.pair()?;
        let point = rest.literal(b'.').or_else(|| rest.literal(b','));
        if point.is_none() {
            return Some((whole, None));
        }
        let mut fraction = f64::from(rest.digit()?) / 10.;
        let mut worth = 10.;
        while let Some(digit) = rest.digit() {
            worth *= 10.;
            fraction += f64::from(digit) / worth;
        }
        Some((whole, Some(fraction)))
    })
}

/// Reads `Z`, or a sign and hours, with or without minutes.
fn offset_minutes(rest: &mut Cursor<'_>, is_extended: bool) -> Option<i32> {
    if rest.literal(b'Z').is_some() {
        return Some(0);
    }
    let sign = rest.sign()?;
    let hours = rest.digits(2).filter(|hours| *hours <= 25)?;
    if is_extended {
        // It may stand there without minutes after it, too.
        let _ = rest.literal(b':');
    }
    let minutes = rest.digits(2).unwrap_or_default();
    (minutes <= 59).then_some(sign * (hours * 60 + minutes))
}
