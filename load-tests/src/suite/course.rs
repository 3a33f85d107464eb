//! How many rows could be queried by when.

/// Part of the rows by which a rate is taken: the last ones may wait for company before they are
/// sent, which is no matter of speed.
const PART: f64 = 0.95;

/// Rows that could be queried, by the seconds since the first request was due.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course(Vec<(f64, f64)>);

impl Course {
    /// From the first request on, when nothing was there.
    #[must_use]
    pub fn new() -> Self {
        Self(vec![(0.0, 0.0)])
    }

    /// Notes what was there when; what is not more than before is left out.
    pub fn note(&mut self, seconds: f64, rows: u64) {
        if rows as f64 > self.rows() {
            self.0.push((seconds, rows as f64));
        }
    }

    /// Rows that were there at last.
    #[must_use]
    pub fn rows(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, rows)| *rows)
    }

    /// Rows per second up to when nearly all were there; `NaN` if nothing ever was.
    #[must_use]
    pub fn rows_per_second(&self) -> f64 {
        let enough = self.rows() * PART;
        let reached = self.0.iter().find(|(_, rows)| *rows >= enough);
        reached.map_or(f64::NAN, |(seconds, rows)| rows / seconds)
    }

    /// For a plot, in thousands of rows.
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
        let mut course = Course::new();
        for (seconds, rows) in [(1.0, 500), (1.5, 500), (2.0, 960), (4.0, 1000)] {
            course.note(seconds, rows);
        }
        assert_eq!(course.rows_per_second(), 480.0);
        assert_eq!(course.rows(), 1000.0);
        assert_eq!(course.points().len(), 4);
    }

    #[test]
    fn nothing_has_no_rate() {
        assert!(Course::new().rows_per_second().is_nan());
    }
}
