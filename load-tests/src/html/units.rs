//! Short texts of numbers for readers.

/// A count with at most three digits: `950`, `1.5 k`, `12 M`.
#[must_use]
pub fn count_text(count: f64) -> String {
    for (unit, sign) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if count >= unit * 0.9995 {
            return format!("{} {sign}", three_digits(count / unit));
        }
    }
    three_digits(count)
}

/// A latency with its unit: `120 µs`, `1.25 ms`, `3 s`.
#[must_use]
pub fn latency_text(micros: f64) -> String {
    for (unit, name) in [(1e6, "s"), (1e3, "ms")] {
        if micros >= unit * 0.9995 {
            return format!("{} {name}", three_digits(micros / unit));
        }
    }
    format!("{} µs", three_digits(micros))
}

/// A number with at least three digits, without trailing zeros of the fraction.
fn three_digits(value: f64) -> String {
    let digits = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        for (count, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (950.0, "950"),
            (1000.0, "1 k"),
            (999_999.0, "1 M"),
            (1_530_000.0, "1.53 M"),
            (12_345_678.0, "12.3 M"),
            (2e9, "2 G"),
        ] {
            assert_eq!(count_text(count), text);
        }
        for (micros, text) in [
            (0.5, "0.5 µs"),
            (120.0, "120 µs"),
            (1250.0, "1.25 ms"),
            (999_900.0, "1 s"),
            (3e6, "3 s"),
            (120e6, "120 s"),
        ] {
            assert_eq!(latency_text(micros), text);
        }
    }
}
