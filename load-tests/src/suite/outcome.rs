//! Result of a case, and of a run.

use super::figure::Figure;
use super::machine::Machine;
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Result of a case, for readers and for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the case.
    pub name: String,
    /// Heading of the case.
    pub title: String,
    /// Column headings of the table.
    pub columns: Vec<String>,
    /// Rows of the table.
    pub rows: Vec<Vec<String>>,
    /// Notes below the table.
    pub notes: Vec<String>,
    /// Figures for the history, by name; a name ends with its unit.
    pub figures: BTreeMap<String, f64>,
    /// Plot of the result.
    pub plot: Option<Plot>,
    /// Run that the result comes from, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// Results of a run of the suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Machine, commit and date.
    pub machine: Machine,
    /// Command line of the run.
    pub command: String,
    /// True for a short run.
    pub quick: bool,
    /// Results of the cases, in their order.
    pub outcomes: Vec<Outcome>,
}

/// Commit and date of an earlier measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Commit that was measured.
    pub commit: String,
    /// Date and time in UTC.
    pub date: String,
}

/// A plot of lines on two axes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// True for logarithmic axes.
    pub log_scale: bool,
    /// Lines of the plot.
    pub lines: Vec<Line>,
}

/// A line of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Name of the line.
    pub name: String,
    /// Points of the line, x first.
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

    /// Adds a figure for the history, if it is finite.
    pub fn figure(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.figures.insert(name.to_owned(), value);
        }
    }

    /// Adds a figure as a row, and for the history.
    pub fn measured(&mut self, figure: &Figure) {
        self.row(figure.row());
        self.figure(&figure.key(), figure.value);
    }

    /// Table and notes as text for a terminal.
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

    /// Table and notes as Markdown.
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

/// Median of some values; `NaN` without any. Of an even number it is the mean of the two middle
/// ones.
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

/// Quotient as text; a dash if it is not finite.
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
    fn a_table_is_written_as_markdown_and_as_text() {
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
