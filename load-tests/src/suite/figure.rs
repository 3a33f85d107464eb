//! Figures of a case, each a row of its table and a value of the history.

/// A measured value with its unit.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name, as in `resident, most`.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// Decimal places in the table.
    pub places: usize,
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
    /// Milliseconds.
    Milliseconds,
    /// Quotient of two values of one unit.
    Ratio,
    /// Number of requests.
    Requests,
    /// Seconds.
    Seconds,
}

impl Unit {
    /// End of the figure's key in the history.
    const fn key(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Events => "events",
            Self::EventsPerSecond => "events_per_second",
            Self::Mebibytes => "mebibytes",
            Self::MebibytesPerMinute => "mebibytes_per_minute",
            Self::Milliseconds => "ms",
            Self::Ratio => "ratio",
            Self::Requests => "requests",
            Self::Seconds => "seconds",
        }
    }

    /// Text in tables.
    const fn text(self) -> &'static str {
        match self {
            Self::EventsPerSecond => "events a second",
            Self::MebibytesPerMinute => "mebibytes a minute",
            other => other.key(),
        }
    }
}

impl Figure {
    /// Key in the history.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}: {}", self.name, self.unit.key())
    }

    /// Row of a table with two columns.
    #[must_use]
    pub fn row(&self) -> [String; 2] {
        let places = self.places;
        [
            format!("{} ({})", self.name, self.unit.text()),
            format!("{:.places$}", self.value),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::outcome::Report;
    use std::path::Path;

    const UNITS: [Unit; 9] = [
        Unit::Count,
        Unit::Events,
        Unit::EventsPerSecond,
        Unit::Mebibytes,
        Unit::MebibytesPerMinute,
        Unit::Milliseconds,
        Unit::Ratio,
        Unit::Requests,
        Unit::Seconds,
    ];
    /// Units of cases that write their figures without [`Figure`].
    const OTHER_UNITS: [&str; 2] = ["us", "rows_per_second"];
    /// Cases whose tables are their figures.
    const OF_FIGURES: [&str; 2] = ["overload", "flood"];

    #[test]
    fn committed_results_have_the_names_that_the_suite_writes() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/report/suite.json");
        let report: Report = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let units = UNITS.map(Unit::key).into_iter().chain(OTHER_UNITS);
        let units: Vec<_> = units.collect();
        for outcome in &report.outcomes {
            for key in outcome.figures.keys() {
                let is_known = units.iter().any(|unit| key.ends_with(*unit));
                assert!(is_known, "{}: {key}", outcome.name);
            }
        }
        for case in OF_FIGURES {
            let outcome = report.outcomes.iter().find(|it| it.name == case).unwrap();
            assert_eq!(outcome.rows.len(), outcome.figures.len(), "{case}");
            for row in &outcome.rows {
                let is_figure = |unit: &Unit| {
                    let name = row[0].strip_suffix(&format!(" ({})", unit.text()));
                    let key = |name: &str| format!("{name}: {}", unit.key());
                    name.is_some_and(|name| outcome.figures.contains_key(&key(name)))
                };
                assert!(UNITS.iter().any(is_figure), "{case}: {}", row[0]);
            }
        }
    }

    #[test]
    fn a_figure_has_its_unit_in_the_table_and_in_the_history() {
        let figure = |unit, value, places| Figure {
            name: "stored",
            unit,
            value,
            places,
        };
        let table = [
            (
                figure(Unit::EventsPerSecond, 1_234.56, 0),
                "stored: events_per_second",
                ["stored (events a second)", "1235"],
            ),
            (
                figure(Unit::Mebibytes, 1.26, 1),
                "stored: mebibytes",
                ["stored (mebibytes)", "1.3"],
            ),
            (
                figure(Unit::Milliseconds, 0.5, 1),
                "stored: ms",
                ["stored (ms)", "0.5"],
            ),
        ];
        for (figure, key, row) in table {
            assert_eq!(figure.key(), key);
            assert_eq!(figure.row(), row.map(str::to_owned));
        }
    }
}
