//! Figures of a case: typed names, whose texts are the keys of the history.

use std::fmt;

/// Measured value with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the value.
    pub name: FigureName,
    /// Value in the unit of its name.
    pub value: f64,
}

/// Name of a figure. Its text is a key in `suite.json` and in the history, where runs of years
/// compare: it is not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureName {
    subject: String,
    quantity: Quantity,
    unit: Unit,
}

/// Quantity of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The only one in its unit.
    Only,
    /// Quantile, as `p99`.
    Quantile(&'static str),
    /// CPU time of threads with a role.
    CpuTime(&'static str),
    /// Rows, by what became of them.
    Rows(&'static str),
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Number of something that the name tells.
    Count,
    /// Number of events.
    Events,
    /// Events per second.
    EventsPerSecond,
    /// Mebibytes.
    Mebibytes,
    /// Mebibytes per minute.
    MebibytesPerMinute,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Millions of events per second.
    MillionEventsPerSecond,
    /// Quotient of two values of one unit.
    Ratio,
    /// Number of requests.
    Requests,
    /// Rows per second.
    RowsPerSecond,
    /// Seconds.
    Seconds,
}

/// Figure of a table that has one in each row, measured in each round.
pub struct FigureSpec<R> {
    /// Name, as in `resident, most`.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Decimal places in the table.
    pub places: usize,
    /// Value in a round.
    pub of: fn(&R) -> f64,
}

impl FigureName {
    /// Names the only quantity of a subject that has this unit.
    #[must_use]
    pub fn new(subject: impl Into<String>, unit: Unit) -> Self {
        Self::with_quantity(subject, Quantity::Only, unit)
    }

    /// Names a quantity of a subject.
    #[must_use]
    pub fn with_quantity(subject: impl Into<String>, quantity: Quantity, unit: Unit) -> Self {
        Self {
            subject: subject.into(),
            quantity,
            unit,
        }
    }
}

impl fmt::Display for FigureName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (subject, unit) = (&self.subject, self.unit.key());
        match self.quantity {
            Quantity::Only => write!(f, "{subject}: {unit}"),
            Quantity::Quantile(quantile) => write!(f, "{subject}: {quantile}_{unit}"),
            Quantity::CpuTime(role) => write!(f, "{subject}: {role}_cpu_{unit}"),
            Quantity::Rows(rows) => write!(f, "{subject}: {rows} {unit}"),
        }
    }
}

impl Unit {
    /// End of the name's text.
    const fn key(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Events => "events",
            Self::EventsPerSecond => "events_per_second",
            Self::Mebibytes => "mebibytes",
            Self::MebibytesPerMinute => "mebibytes_per_minute",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::MillionEventsPerSecond => "million_events_per_second",
            Self::Ratio => "ratio",
            Self::Requests => "requests",
            Self::RowsPerSecond => "rows_per_second",
            Self::Seconds => "seconds",
        }
    }

    /// Text in tables.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::EventsPerSecond => "events a second",
            Self::MebibytesPerMinute => "mebibytes a minute",
            other => other.key(),
        }
    }
}

impl<R> FigureSpec<R> {
    /// Describes a figure.
    #[must_use]
    pub const fn new(name: &'static str, unit: Unit, places: usize, of: fn(&R) -> f64) -> Self {
        Self {
            name,
            unit,
            places,
            of,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::suite::outcome::{Outcome, Report};
    use std::collections::BTreeSet;
    use std::path::Path;

    const UNITS: [Unit; 12] = [
        Unit::Count,
        Unit::Events,
        Unit::EventsPerSecond,
        Unit::Mebibytes,
        Unit::MebibytesPerMinute,
        Unit::Microseconds,
        Unit::Milliseconds,
        Unit::MillionEventsPerSecond,
        Unit::Ratio,
        Unit::Requests,
        Unit::RowsPerSecond,
        Unit::Seconds,
    ];

    fn committed() -> Vec<Outcome> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/report/suite.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        report.outcomes
    }

    /// Asserts that the committed results of a case have these figures, each in a row.
    pub(in crate::suite) fn assert_committed<R>(case: &str, specs: &[FigureSpec<R>]) {
        let committed = committed();
        let outcome = committed.iter().find(|it| it.name == case).unwrap();
        let names = specs.iter().map(|it| FigureName::new(it.name, it.unit));
        let names: BTreeSet<String> = names.map(|name| name.to_string()).collect();
        let keys: BTreeSet<String> = outcome.figures.keys().cloned().collect();
        assert_eq!(names, keys, "{case}");
        let labels = specs.iter().map(|it| (it.name, it.unit.text()));
        let labels: Vec<String> = labels
            .map(|(name, unit)| format!("{name} ({unit})"))
            .collect();
        let rows: Vec<String> = outcome.rows.iter().map(|row| row[0].clone()).collect();
        assert_eq!(rows, labels, "{case}");
    }

    #[test]
    fn committed_results_have_units_that_the_suite_knows() {
        for outcome in committed() {
            for key in outcome.figures.keys() {
                let is_known = UNITS.iter().any(|unit| key.ends_with(unit.key()));
                assert!(is_known, "{}: {key}", outcome.name);
            }
        }
    }

    #[test]
    fn names_are_the_keys_of_committed_results() {
        use Quantity::{CpuTime, Only, Quantile, Rows};
        let of = FigureName::with_quantity;
        let mebibytes = Unit::Mebibytes;
        let table = [
            ("batches", of("Millrace", Only, Unit::EventsPerSecond)),
            (
                "latency",
                of("memory", Quantile("p99.9"), Unit::Milliseconds),
            ),
            ("latency", of("disk ÷ bare", Quantile("max"), Unit::Ratio)),
            (
                "shipping",
                of("disk", CpuTime("the rest"), Unit::Microseconds),
            ),
            ("visible", of("memory", Rows("bare"), Unit::RowsPerSecond)),
            ("visible", of("disk: of the bare loop", Only, Unit::Ratio)),
            ("exports", of("export ÷ select", Only, Unit::Ratio)),
            ("memory", of("10 000 idle connections", Only, mebibytes)),
            ("soak", of("most", Only, mebibytes)),
        ];
        let committed = committed();
        for (case, name) in table {
            let outcome = committed.iter().find(|it| it.name == case).unwrap();
            let key = name.to_string();
            assert!(outcome.figures.contains_key(&key), "{case}: {key}");
        }
    }
}
