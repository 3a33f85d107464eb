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
