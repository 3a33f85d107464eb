//! Result of a case and of a run, as they are kept. [`render`](super::render) writes them.

use super::machine::Machine;
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
    /// Figures for the history, by the text of their names.
    pub figures: BTreeMap<String, f64>,
    /// Plot of the result.
    pub plot: Option<Plot>,
    /// Run that the result comes from, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<EarlierMeasurement>,
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
pub struct EarlierMeasurement {
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
    /// Labels of the positions 1, 2, 3 and so on of the horizontal axis; empty for an axis of
    /// numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub x_labels: Vec<String>,
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

impl Plot {
    /// Plots lines on linear axes.
    #[must_use]
    pub fn linear(x: &str, y: &str, lines: Vec<Line>) -> Self {
        Self {
            x: x.to_owned(),
            y: y.to_owned(),
            log_scale: false,
            x_labels: Vec::new(),
            lines,
        }
    }

    /// Plots lines on logarithmic axes.
    #[must_use]
    pub fn logarithmic(x: &str, y: &str, lines: Vec<Line>) -> Self {
        Self {
            log_scale: true,
            ..Self::linear(x, y, lines)
        }
    }
}

impl Line {
    /// Draws a line through points.
    #[must_use]
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
        }
    }
}
