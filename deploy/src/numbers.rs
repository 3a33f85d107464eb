//! Parsers of whole numbers and ids in settings and options: where there is none, they say what to
//! give. The standard library's would say that a digit is invalid.

use std::num::IntErrorKind;
use uuid::Uuid;

/// Parses a number of things.
pub fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, "give a whole number, such as 10")
}

/// Parses a number of seconds.
pub fn seconds<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, "give a whole number of seconds, such as 10")
}

/// Parses a number of days.
pub fn days<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, "give a whole number of days, such as 30")
}

/// Parses a port.
pub fn port(text: &str) -> Result<u16, String> {
    whole(text, "give a port, such as 9000")
}

/// Parses the id of a project.
pub fn project<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole(text, "give the id of a project, such as 1")
}

/// Parses an id that is a UUID.
pub fn uuid_of(text: &str) -> Result<Uuid, String> {
    let example = "give an id such as 018f2a3b-0000-7000-8000-000000000000";
    text.parse().map_err(|_| example.to_owned())
}

/// Parses a number of things of which there is at least one.
pub fn positive<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    within(text, u64::MAX, "give a whole number from 1, such as 10")
}

/// Parses a number of things of which there is at least one, and so many at most.
pub fn up_to<T: TryFrom<u64>, const MOST: u64>(text: &str) -> Result<T, String> {
    within(
        text,
        MOST,
        &format!("give a whole number from 1 to {MOST}, such as 2"),
    )
}

fn within<T: TryFrom<u64>>(text: &str, most: u64, advice: &str) -> Result<T, String> {
    let number: u64 = whole(text, advice)?;
    match (1..=most).contains(&number) {
        true => whole(text, advice),
        false => Err(advice.to_owned()),
    }
}

fn whole<T: TryFrom<u64>>(text: &str, advice: &str) -> Result<T, String> {
    let too_large = || format!("it is too large; {advice}");
    match text.parse::<u64>() {
        Ok(number) => T::try_from(number).map_err(|_| too_large()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_large()),
        Err(_) => Err(advice.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_whole_number_is_refused_with_what_to_give() {
        let advice = "give a whole number of seconds, such as 10";
        let too_large = format!("it is too large; {advice}");
        let table = [
            ("0", Ok(0)),
            ("10", Ok(10)),
            ("4294967295", Ok(u32::MAX)),
            ("4294967296", Err(&*too_large)),
            ("99999999999999999999999", Err(&*too_large)),
            ("10s", Err(advice)),
            ("1.5", Err(advice)),
            ("-1", Err(advice)),
            ("1_000", Err(advice)),
            (" 10", Err(advice)),
            ("", Err(advice)),
        ];
        for (text, expected) in table {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(seconds::<u32>(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_number_beyond_its_range_is_refused_with_the_range() {
        let advice = Err("give a whole number from 1 to 64, such as 2".to_owned());
        let table = [
            ("1", Ok(1)),
            ("64", Ok(64)),
            ("0", advice.clone()),
            ("65", advice.clone()),
            ("many", advice),
        ];
        for (text, expected) in table {
            assert_eq!(up_to::<u8, 64>(text), expected, "{text:?}");
        }
        assert_eq!(positive("4294967295"), Ok(u32::MAX));
        for text in ["0", "abc", "4294967296"] {
            let advice = positive::<u32>(text).unwrap_err();
            assert!(advice.contains("from 1, such as"), "{text}: {advice}");
        }
    }

    #[test]
    fn the_advice_names_the_unit() {
        let table = [
            (count::<u64>("x").unwrap_err(), "a whole number, such"),
            (seconds::<u64>("x").unwrap_err(), "of seconds"),
            (days::<u32>("x").unwrap_err(), "of days"),
            (port("65536").unwrap_err(), "a port"),
            (project::<i64>("abc").unwrap_err(), "id of a project"),
        ];
        for (advice, unit) in table {
            assert!(advice.contains(unit), "{advice}");
        }
    }
}
