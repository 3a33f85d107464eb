//! What a case gave.

use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a case gave, for people and for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The case.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Column heads of the table.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What has to be said of it.
    pub notes: Vec<String>,
    /// What is kept in the history, by name; the unit is the name's end.
    pub figures: BTreeMap<String, f64>,
    /// A picture of it.
    pub plot: Option<Plot>,
    /// Of which run it is, when that is not the page's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// When, and of what, something was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The commit.
    pub commit: String,
    /// The time in UTC.
    pub date: String,
}

/// Lines over an axis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What is along the bottom.
    pub x: String,
    /// What is up the side.
    pub y: String,
    /// Whether the axes grow by factors.
    pub log_scale: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Its points, x first.
    pub points: Vec<(f64, f64)>,
}

impl Outcome {
    /// An outcome with a table of these columns and no rows yet.
    #[must_use]
    pub fn with_columns(columns: &[&str]) -> Self {
        Self {
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Keeps a figure for the history, if there is one.
    pub fn figure(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_owned(), value);
        }
    }

    /// The table for a terminal, with the notes.
    #[must_use]
    pub fn text(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.columns);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let notes: String = self.notes.iter().map(|note| format!("{note}\n")).collect();
        format!("{}\n{notes}", table.trim_fmt())
    }

    /// The same as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let mut text = line(&self.columns);
        let rules: Vec<_> = (0..self.columns.len())
            .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
            .collect();
        text.push_str(&line(&rules));
        for row in &self.rows {
            text.push_str(&line(row));
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }
}

/// The middle of some values, the mean of the two middle ones if they are even; `NaN` of none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted.len().saturating_sub(1) / 2, sorted.len() / 2);
    match (sorted.get(low), sorted.get(high)) {
        (Some(low), Some(high)) => f64::midpoint(*low, *high),
        _ => f64::NAN,
    }
}

/// A part of something as text; nothing where there is nothing to divide by.
#[must_use]
pub fn ratio(of: f64, by: f64) -> String {
    let ratio = of / by;
    if ratio.is_finite() {
        format!("{ratio:.2}")
    } else {
        "–".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, expected) in [
            (vec![3.0], 3.0),
            (vec![9.0, 1.0, 5.0], 5.0),
            (vec![4.0, 1.0, 2.0, 100.0], 3.0),
        ] {
            assert_eq!(median(&values), expected, "{values:?}");
        }
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_have_two_places_or_are_absent() {
        assert_eq!(ratio(1.0, 3.0), "0.33");
        assert_eq!(ratio(1.0, 0.0), "–");
        assert_eq!(ratio(f64::NAN, 1.0), "–");
    }

    #[test]
    fn a_table_is_written_for_both_readers() {
        let mut outcome = Outcome::with_columns(&["server", "events/s"]);
        outcome.row(["ours".to_owned(), "1 000".to_owned()]);
        outcome.notes.push("A note.".to_owned());
        outcome.figure("kept_per_second", 1.0);
        outcome.figure("lost_per_second", f64::NAN);
        assert_eq!(
            outcome.markdown(),
            "| server | events/s |\n| --- | ---: |\n| ours | 1 000 |\n\nA note.\n"
        );
        assert!(outcome.text().contains("ours"));
        assert_eq!(outcome.figures.len(), 1);
    }
}
