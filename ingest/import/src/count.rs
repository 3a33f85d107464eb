//! Numbers with what they count.

use indicatif::HumanCount;

/// A number with what it counts, whose plural ends with an s: `1 file`, `2,000 files`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {what}{ending}", HumanCount(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_all_others_are_several() {
        let table = [
            (0, "0 files"),
            (1, "1 file"),
            (2, "2 files"),
            (1_001, "1,001 files"),
        ];
        for (number, expected) in table {
            assert_eq!(counted(number, "file"), expected);
        }
    }
}
