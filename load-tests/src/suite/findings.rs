//! Findings of a case: a table of typed cells, figures, notes and a plot. [`render`](super::render)
//! makes texts of them.

use super::figure::{Figure, FigureName, FigureSpec, Unit};
use super::outcome::Plot;
use super::rounds::Rounds;

/// Findings of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Column headings of the table.
    pub columns: Vec<String>,
    /// Rows of the table.
    pub rows: Vec<Vec<Cell>>,
    /// Figures for the history.
    pub figures: Vec<Figure>,
    /// Notes below the table.
    pub notes: Vec<String>,
    /// Plot of the result.
    pub plot: Option<Plot>,
}

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// Whole number, its digits in groups.
    Grouped(f64),
    /// Number with this many decimal places.
    Decimals(f64, usize),
    /// Quotient of two values.
    Ratio(f64),
    /// Figure's name and unit, in front of its value.
    Label(&'static str, Unit),
    /// Nothing to measure.
    Absent,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Findings {
    /// Starts a table with these columns and no rows yet.
    #[must_use]
    pub fn with_columns(columns: &[&str]) -> Self {
        Self {
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a figure for the history, if it is finite.
    pub fn figure(&mut self, name: FigureName, value: f64) {
        if value.is_finite() {
            self.figures.push(Figure { name, value });
        }
    }

    /// Adds the median of each of these figures as a row, and for the history.
    pub fn figures_of<R>(&mut self, specs: &[FigureSpec<R>], rounds: &Rounds<R>) {
        for spec in specs {
            let value = rounds.median(spec.of);
            self.row([
                Cell::Label(spec.name, spec.unit),
                Cell::Decimals(value, spec.places),
            ]);
            self.figure(FigureName::new(spec.name, spec.unit), value);
        }
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }
}
