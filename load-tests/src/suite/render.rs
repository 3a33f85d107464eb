//! Renderer of results: findings as an outcome, and outcomes as text for a terminal, as Markdown
//! and as JSON.

use super::findings::{Cell, Findings};
use super::outcome::{Outcome, Report};
use crate::digits::grouped;
use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};

/// Text of what was not measured.
const ABSENT: &str = "–";

/// Makes the outcome of a case.
#[must_use]
pub fn outcome(name: &str, title: &str, findings: Findings) -> Outcome {
    let rows = findings.rows.iter();
    let rows = rows.map(|row| row.iter().map(cell).collect()).collect();
    let figures = findings.figures.iter();
    let figures = figures.map(|figure| (figure.name.to_string(), figure.value));
    let figures = figures.collect();
    Outcome {
        name: name.to_owned(),
        title: title.to_owned(),
        columns: findings.columns,
        rows,
        notes: findings.notes,
        figures,
        plot: findings.plot,
        origin: None,
    }
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Grouped(value) => grouped(*value),
        Cell::Decimals(value, places) => {
            let places = *places;
            format!("{value:.places$}")
        }
        Cell::Ratio(value) => ratio(*value),
        Cell::Label(name, unit) => format!("{name} ({})", unit.text()),
        Cell::Absent => ABSENT.to_owned(),
    }
}

/// Quotient as text; a dash if it is not finite.
#[must_use]
pub fn ratio(ratio: f64) -> String {
    if ratio.is_finite() {
        format!("{ratio:.2}")
    } else {
        ABSENT.to_owned()
    }
}

/// Table and notes as text for a terminal.
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(&outcome.columns);
    for row in &outcome.rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let notes = outcome.notes.iter().map(|note| format!("{note}\n"));
    format!("{}\n{}", table.trim_fmt(), notes.collect::<String>())
}

/// Table and notes as Markdown.
#[must_use]
pub fn markdown(outcome: &Outcome) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&outcome.columns);
    let rules: Vec<_> = (0..outcome.columns.len())
        .map(|column| if column == 0 { "---" } else { "---:" }.to_owned())
        .collect();
    text.push_str(&line(&rules));
    for row in &outcome.rows {
        text.push_str(&line(row));
    }
    for note in &outcome.notes {
        text.push_str(&format!("\n{note}\n"));
    }
    text
}

/// Results of a run as JSON.
///
/// # Errors
/// A value has no form in JSON.
pub fn json(report: &Report) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(report).context("report")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::figure::{FigureName, Unit};

    #[test]
    fn ratios_have_two_places_or_are_absent() {
        assert_eq!(ratio(1.0 / 3.0), "0.33");
        assert_eq!(ratio(f64::INFINITY), "–");
        assert_eq!(ratio(f64::NAN), "–");
    }

    #[test]
    fn cells_are_written_by_their_kind() {
        let table = [
            (Cell::from("ours"), "ours"),
            (Cell::Grouped(1_234.56), "1 235"),
            (Cell::Grouped(f64::NAN), "–"),
            (Cell::Decimals(1.26, 1), "1.3"),
            (Cell::Ratio(0.5), "0.50"),
            (
                Cell::Label("stored", Unit::EventsPerSecond),
                "stored (events a second)",
            ),
            (Cell::Label("503, p50", Unit::Milliseconds), "503, p50 (ms)"),
            (Cell::Absent, "–"),
        ];
        for (typed, text) in table {
            assert_eq!(cell(&typed), text, "{typed:?}");
        }
    }

    #[test]
    fn a_table_is_written_as_markdown_and_as_text() {
        let mut findings = Findings::with_columns(&["server", "events/s"]);
        findings.row(["ours".into(), Cell::Grouped(1_000.0)]);
        findings.note("A note.");
        findings.figure(FigureName::new("kept", Unit::EventsPerSecond), 1.0);
        findings.figure(FigureName::new("lost", Unit::EventsPerSecond), f64::NAN);
        let outcome = outcome("case", "Case", findings);
        assert_eq!(
            markdown(&outcome),
            "| server | events/s |\n| --- | ---: |\n| ours | 1 000 |\n\nA note.\n"
        );
        assert!(text(&outcome).contains("ours"));
        let figures: Vec<_> = outcome.figures.into_iter().collect();
        assert_eq!(figures, [("kept: events_per_second".to_owned(), 1.0)]);
    }
}
