//! Numbers with their noun, as people read them.

/// Formats a number with its noun, whose plural ends with an s: `1 file`, `2,000 files`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + what.len() + 2);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text.push(' ');
    text.push_str(what);
    if number != 1 {
        text.push('s');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_one_takes_the_singular() {
        let table = [
            (0, "0 files"),
            (1, "1 file"),
            (2, "2 files"),
            (999, "999 files"),
            (1_001, "1,001 files"),
            (123_456, "123,456 files"),
            (1_000_000, "1,000,000 files"),
            (u64::MAX, "18,446,744,073,709,551,615 files"),
        ];
        for (number, expected) in table {
            assert_eq!(counted(number, "file"), expected);
        }
    }
}
