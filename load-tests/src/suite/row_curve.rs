//! Number of rows that can be queried, over time.

/// Share of the rows that a rate covers. The last rows may wait to be batched before they are sent,
/// which says nothing about speed.
const PART: f64 = 0.95;

/// Curve of queryable rows, by seconds since the first request was due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowCurve(Vec<(f64, f64)>);

impl RowCurve {
    /// Starts a curve with no rows at the first request.
    #[must_use]
    pub fn new() -> Self {
        Self(vec![(0.0, 0.0)])
    }

    /// Adds a point; one without further rows is left out.
    pub fn note(&mut self, seconds: f64, rows: u64) {
        if rows as f64 > self.rows() {
            self.0.push((seconds, rows as f64));
        }
    }

    /// Last number of rows.
    #[must_use]
    pub fn rows(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, rows)| *rows)
    }

    /// Rows per second until nearly all were queryable; `NaN` if none ever was.
    #[must_use]
    pub fn rows_per_second(&self) -> f64 {
        let enough = self.rows() * PART;
        let reached = self.0.iter().find(|(_, rows)| *rows >= enough);
        reached.map_or(f64::NAN, |(seconds, rows)| rows / seconds)
    }

    /// Points for a plot, in thousands of rows.
    #[must_use]
    pub fn points(&self) -> Vec<(f64, f64)> {
        let in_thousands = |(seconds, rows): &(f64, f64)| (*seconds, rows / 1000.0);
        self.0.iter().map(in_thousands).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_few_rows_do_not_slow_the_rate() {
        let mut curve = RowCurve::new();
        for (seconds, rows) in [(1.0, 500), (1.5, 500), (2.0, 960), (4.0, 1000)] {
            curve.note(seconds, rows);
        }
        assert_eq!(curve.rows_per_second(), 480.0);
        assert_eq!(curve.rows(), 1000.0);
        assert_eq!(curve.points().len(), 4);
    }

    #[test]
    fn an_empty_curve_has_no_rate() {
        assert!(RowCurve::new().rows_per_second().is_nan());
    }
}
