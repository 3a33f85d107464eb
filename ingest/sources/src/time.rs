//! Writes times into events.

use millrace_rows::Micros;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Appends a time as `YYYY-MM-DDThh:mm:ss[.ffffff]Z`.
pub fn write(json: &mut Vec<u8>, at: Micros) {
    let (year, month, day) = date(at.0.div_euclid(MICROS_PER_DAY));
    let of_day = at.0.rem_euclid(MICROS_PER_DAY);
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    digits(json, year, 1_000, b'-');
    digits(json, month, 10, b'-');
    digits(json, day, 10, b'T');
    digits(json, hour, 10, b':');
    digits(json, minute, 10, b':');
    if micros > 0 {
        digits(json, second, 10, b'.');
        digits(json, micros, 100_000, b'Z');
    } else {
        digits(json, second, 10, b'Z');
    }
}

/// Appends a number with leading zeros, whose first digit has the given worth, and a byte after it.
fn digits(json: &mut Vec<u8>, number: i64, mut worth: i64, after: u8) {
    while worth > 0 {
        // One digit, as years are below 10 000.
        let digit = u8::try_from(number / worth % 10).unwrap_or_default();
        json.push(b'0' + digit);
        worth /= 10;
    }
    json.push(after);
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar.
#[must_use]
pub fn date(days: i64) -> (i64, i64, i64) {
    // Years are counted from March, so that the leap day is the last of its year.
    let since_march_0000 = days + 719_468;
    let era = since_march_0000.div_euclid(146_097);
    let of_era = since_march_0000.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_iso_8601() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00Z"),
            (1_795_189_098_000_123, "2026-11-20T15:38:18.000123Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (4_102_444_799_999_999, "2099-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in table {
            let mut json = Vec::new();
            write(&mut json, Micros(micros));
            assert_eq!(String::from_utf8(json).unwrap(), text);
        }
    }
}
