//! Counts beside each other.

use comfy_table::{CellAlignment, Table, presets};

/// A case may cost so many percent more than what is committed, and so many less before its
/// count has to be committed anew: a gain that nobody writes down can be lost unseen.
pub const PERCENT_MAX: f64 = 5.0;

/// A case, counted.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// Events of a round.
    pub events: u32,
    /// Instructions of a round as committed; `None` for a new case.
    pub committed: Option<u64>,
    /// As counted now.
    pub counted: u64,
}

impl Line {
    fn percent(&self) -> Option<f64> {
        let committed = self.committed.filter(|count| *count > 0)? as f64;
        Some((self.counted as f64 - committed) * 100.0 / committed)
    }

    /// Whether it is as committed.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.percent()
            .is_some_and(|percent| percent.abs() <= PERCENT_MAX)
    }

    fn verdict(&self) -> &'static str {
        match self.percent() {
            None => "new: commit it",
            Some(percent) if percent > PERCENT_MAX => "TOO MANY",
            Some(percent) if percent < -PERCENT_MAX => "fewer: commit it",
            Some(_) => "ok",
        }
    }
}

/// All lines as a table for a terminal.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "instructions of",
        "committed",
        "now",
        "an event",
        "change",
        "",
    ]);
    for line in lines {
        let percent = line.percent();
        table.add_row([
            line.name.to_owned(),
            line.committed.map_or_else(String::new, grouped),
            grouped(line.counted),
            grouped(line.counted / u64::from(line.events.max(1))),
            percent.map_or_else(String::new, |percent| format!("{percent:+.2} %")),
            line.verdict().to_owned(),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(4) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// A number with its thousands apart.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_kept_within_five_percent_either_way() {
        for (committed, counted, kept, verdict) in [
            (Some(1_000), 1_000, true, "ok"),
            (Some(1_000), 1_050, true, "ok"),
            (Some(1_000), 1_051, false, "TOO MANY"),
            (Some(1_000), 950, true, "ok"),
            (Some(1_000), 949, false, "fewer"),
            (None, 1_000, false, "new"),
            (Some(0), 1_000, false, "new"),
        ] {
            let line = Line {
                name: "parse/x",
                events: 10,
                committed,
                counted,
            };
            assert_eq!(line.is_kept(), kept, "{line:?}");
            let table = table(&[line]);
            assert!(table.contains(verdict), "{table}");
        }
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(999), "999");
    }
}
