//! Numbers as texts.

/// A whole number with grouped thousands; a dash if it is not finite.
#[must_use]
pub fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = format!("{value:.0}");
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun: `1 request`, `2 000 requests`, `2 batches`.
#[must_use]
pub fn counted(number: u64, what: &str) -> String {
    let end = match number {
        1 => "",
        _ if what.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{} {what}{end}", grouped(number as f64))
}

/// Label of a tick on an axis.
#[must_use]
pub fn tick(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        _ if value.abs() < 0.1 => format!("{value:.3}"),
        _ if value.abs() < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_number_one_takes_the_singular() {
        for (number, what, text) in [
            (0, "request", "0 requests"),
            (1, "request", "1 request"),
            (2_000, "request", "2 000 requests"),
            (1, "batch", "1 batch"),
            (2, "batch", "2 batches"),
        ] {
            assert_eq!(counted(number, what), text);
        }
    }

    #[test]
    fn labels_of_an_axis_have_no_needless_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.01, "0.010"),
            (0.5, "0.5"),
            (1.0, "1"),
            (1_000_000.0, "1 000 000"),
        ] {
            assert_eq!(tick(value), text);
        }
    }
}
