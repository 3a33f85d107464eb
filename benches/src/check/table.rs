//! Table of the counts: committed, now, and for each event or byte.

use super::CostBasis;
use comfy_table::{CellAlignment, Table, presets};

/// Percent by which a count may differ from the committed one, either way: a gain that nobody
/// commits could be lost unseen.
pub const PERCENT_MAX: f64 = 5.0;
/// Percent by which the count of a case with a bound may differ: there the bound matters, and two
/// counts of an LZString case differed by 9 %.
pub const PERCENT_MAX_BOUNDED: f64 = 20.0;

/// The count of a case beside the committed one.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name of the case.
    pub name: String,
    /// The unit that the cost of a round is stated for.
    pub basis: CostBasis,
    /// Instructions of a round as committed; `None` for a new case.
    pub committed: Option<u64>,
    /// Instructions of a round as counted now.
    pub counted: u64,
}

impl Line {
    fn percent(&self) -> Option<f64> {
        let committed = self.committed.filter(|count| *count > 0)? as f64;
        Some((self.counted as f64 - committed) * 100.0 / committed)
    }

    fn percent_max(&self) -> f64 {
        match self.basis.instructions_max {
            Some(_) => PERCENT_MAX_BOUNDED,
            None => PERCENT_MAX,
        }
    }

    /// Instructions for each unit.
    fn each(&self) -> u64 {
        self.counted * self.basis.parts_per_unit / self.basis.parts.max(1)
    }

    /// Returns true if the case costs no more than its bound, whatever is committed.
    #[must_use]
    pub fn is_within_bound(&self) -> bool {
        let most = self.basis.instructions_max;
        most.is_none_or(|most| self.each() <= most)
    }

    /// Returns true if the count is near enough to the committed one.
    #[must_use]
    pub fn is_as_committed(&self) -> bool {
        self.percent()
            .is_some_and(|percent| percent.abs() <= self.percent_max())
    }

    fn status(&self) -> &'static str {
        match self.percent() {
            _ if !self.is_within_bound() => "OVER ITS BOUND",
            None => "new: commit it",
            Some(percent) if percent > self.percent_max() => "TOO MANY",
            Some(percent) if percent < -self.percent_max() => "fewer: commit it",
            Some(_) => "ok",
        }
    }
}

/// Renders all lines as a table for a terminal.
#[must_use]
pub fn table(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([
        "instructions of",
        "committed",
        "now",
        "each",
        "",
        "at most",
        "change",
        "",
    ]);
    for line in lines {
        let percent = line.percent();
        table.add_row([
            line.name.clone(),
            line.committed.map_or_else(String::new, grouped),
            grouped(line.counted),
            grouped(line.each()),
            line.basis.unit.to_owned(),
            line.basis
                .instructions_max
                .map_or_else(String::new, grouped),
            percent.map_or_else(String::new, |percent| format!("{percent:+.2} %")),
            line.status().to_owned(),
        ]);
    }
    for (nth, column) in table.column_iter_mut().enumerate() {
        if matches!(nth, 1..=3 | 5..=6) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// Formats a number with spaces between its thousands.
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

    fn line(committed: Option<u64>, counted: u64, instructions_max: Option<u64>) -> Line {
        Line {
            name: "parse/x".to_owned(),
            basis: CostBasis {
                unit: "an event",
                parts: 10,
                parts_per_unit: 1,
                instructions_max,
            },
            committed,
            counted,
        }
    }

    #[test]
    fn a_count_over_its_bound_fails_whatever_is_committed() {
        for (counted, is_within) in [(1_000, true), (1_009, true), (1_010, false)] {
            let line = line(Some(counted), counted, Some(100));
            assert_eq!(line.is_within_bound(), is_within, "{counted}");
            let table = table(&[line]);
            assert_eq!(table.contains("OVER ITS BOUND"), !is_within, "{table}");
        }
    }

    #[test]
    fn a_count_may_differ_by_five_percent_or_by_twenty_if_it_has_a_bound() {
        for (committed, counted, kept, status) in [
            (Some(1_000), 1_000, true, "ok"),
            (Some(1_000), 1_050, true, "ok"),
            (Some(1_000), 1_051, false, "TOO MANY"),
            (Some(1_000), 950, true, "ok"),
            (Some(1_000), 949, false, "fewer"),
            (None, 1_000, false, "new"),
            (Some(0), 1_000, false, "new"),
        ] {
            let line = line(committed, counted, None);
            assert_eq!(line.is_as_committed(), kept, "{line:?}");
            let table = table(&[line]);
            assert!(table.contains(status), "{table}");
        }
        for (counted, kept) in [(1_200, true), (1_201, false), (800, true), (799, false)] {
            let line = line(Some(1_000), counted, Some(1_000));
            assert_eq!(line.is_as_committed(), kept, "{line:?}");
        }
    }

    #[test]
    fn thousands_are_separated_by_spaces() {
        assert_eq!(grouped(1_234_567), "1 234 567");
        assert_eq!(grouped(999), "999");
    }
}
