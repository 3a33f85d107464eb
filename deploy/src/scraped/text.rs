//! Metrics in Prometheus' text format. Names, descriptions and labels are ours, so that nothing in
//! them has to be escaped.

use std::fmt::{Display, Write as _};

/// Kind of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Counter,
    Gauge,
}

/// Appends the two lines that describe a metric; its samples follow.
pub fn describe(page: &mut String, name: &str, kind: Kind, description: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    // Writing to a string does not fail.
    let _ = write!(page, "# HELP {name} {description}\n# TYPE {name} {kind}\n");
}

/// Appends a sample without labels.
pub fn sample(page: &mut String, name: &str, value: impl Display) {
    let _ = writeln!(page, "{name} {value}");
}

/// Appends a sample with labels, as in `project_id="7",outcome="accepted"`.
pub fn labelled(page: &mut String, name: &str, labels: impl Display, value: impl Display) {
    let _ = writeln!(page, "{name}{{{labels}}} {value}");
}
