//! Rate of an open loop over time.
//!
//! A load consists of stages, in which the rate is constant or changes evenly. The number of
//! requests that are due until a time is the integral of the rate, and the time when a request is
//! due is the inverse of that.

use crate::digits::grouped;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Part of a load, from one rate to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Length of the stage.
    pub duration: Duration,
    /// Rate at its beginning, in events per second.
    pub from: f64,
    /// Rate at its end, in events per second.
    pub to: f64,
}

/// Times when the requests of an open loop are due, counted from the first one.
#[derive(Clone, Debug)]
pub struct RateCurve {
    pieces: Vec<Piece>,
}

/// Piece of a curve with an even change of the rate.
#[derive(Clone, Copy, Debug)]
struct Piece {
    start_ns: f64,
    /// Number of requests due before the piece, with fractions.
    first: f64,
    /// Number of requests due in the piece.
    requests: f64,
    /// Requests per nanosecond at the beginning.
    rate: f64,
    /// Change of the rate per nanosecond.
    slope: f64,
    /// Nanoseconds between requests while the rate is that of the beginning.
    interval_ns: f64,
}

impl Stage {
    /// Parses `TIME:RATE` or `TIME:FROM..TO`, such as `30s:1000..5000`.
    ///
    /// # Errors
    /// The part that is wrong, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (time, rate) = text
            .split_once(':')
            .ok_or_else(|| format!("{text:?} is not TIME:RATE or TIME:FROM..TO"))?;
        let duration = humantime::parse_duration(time)
            .map_err(|error| format!("{time:?} is not a time: {error}"))?;
        if duration.is_zero() {
            return Err(format!("{text:?} has no length"));
        }
        let (from, to) = rate.split_once("..").unwrap_or((rate, rate));
        let number = |text: &str| {
            let number = text.parse::<f64>().ok();
            number
                .filter(|number| number.is_finite() && *number >= 0.0)
                .ok_or_else(|| format!("{text:?} is not a rate in events per second"))
        };
        Ok(Self {
            duration,
            from: number(from)?,
            to: number(to)?,
        })
    }

    /// Stage of two loads at the same time; `None` if they have different lengths.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        (self.duration == other.duration).then_some(Self {
            duration: self.duration,
            from: self.from + other.from,
            to: self.to + other.to,
        })
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&grouped(self.from))?;
        if self.from != self.to {
            write!(f, " to {}", grouped(self.to))?;
        }
        let duration = humantime::format_duration(self.duration);
        write!(f, " events/s for {duration}")
    }
}

impl RateCurve {
    /// Curve of a constant rate without end, of requests with so many events on average.
    #[must_use]
    pub fn constant(events_per_second: f64, events: f64) -> Self {
        let piece = Piece {
            start_ns: 0.0,
            first: 0.0,
            requests: f64::INFINITY,
            rate: events_per_second / events / 1e9,
            slope: 0.0,
            interval_ns: 1e9 * events / events_per_second,
        };
        Self {
            pieces: vec![piece],
        }
    }

    /// Curve of stages, of requests with so many events on average.
    #[must_use]
    pub fn of_stages<'a>(stages: impl IntoIterator<Item = &'a Stage>, events: f64) -> Self {
        let (mut start_ns, mut first) = (0.0, 0.0);
        let piece = |stage: &Stage| {
            let length_ns = stage.duration.as_nanos() as f64;
            let (rate, end_rate) = (stage.from / events / 1e9, stage.to / events / 1e9);
            let piece = Piece {
                start_ns,
                first,
                // In seconds, so that round rates give round numbers.
                requests: stage.duration.as_secs_f64() * f64::midpoint(stage.from, stage.to)
                    / events,
                rate,
                slope: if length_ns > 0.0 {
                    (end_rate - rate) / length_ns
                } else {
                    0.0
                },
                interval_ns: 1e9 * events / stage.from,
            };
            start_ns += length_ns;
            first += piece.requests;
            piece
        };
        Self {
            pieces: stages.into_iter().map(piece).collect(),
        }
    }

    /// Time when a request is due; `None` for one behind the last.
    #[must_use]
    pub fn due(&self, number: u64) -> Option<Duration> {
        let number = number as f64;
        let mut pieces = self.pieces.iter();
        let piece = pieces.find(|piece| number < piece.first + piece.requests)?;
        let ns = piece.start_ns + piece.due_ns(number - piece.first);
        Some(Duration::from_nanos(ns as u64))
    }

    /// Number of requests that are due before a time.
    #[must_use]
    pub fn due_before(&self, time: Duration) -> u64 {
        let ns = time.as_nanos() as f64;
        let mut pieces = self.pieces.iter().rev();
        let Some(piece) = pieces.find(|piece| piece.start_ns <= ns) else {
            return 0;
        };
        // Neither function is exact, so the neighbouring counts are checked.
        let mut count = (piece.first + piece.requests_in(ns - piece.start_ns)) as u64;
        while self.due(count).is_some_and(|due| due < time) {
            count += 1;
        }
        while count > 0 && self.due(count - 1).is_none_or(|due| due >= time) {
            count -= 1;
        }
        count
    }
}

impl Piece {
    /// Nanoseconds from the beginning until so many requests of the piece are due.
    fn due_ns(&self, requests: f64) -> f64 {
        if self.slope == 0.0 {
            return requests * self.interval_ns;
        }
        if requests <= 0.0 {
            return 0.0;
        }
        // The form of the quadratic formula that stays exact where the slope is small.
        let square = self.rate * self.rate + 2.0 * self.slope * requests;
        2.0 * requests / (self.rate + square.max(0.0).sqrt())
    }

    /// Number of requests due in the first nanoseconds of the piece.
    fn requests_in(&self, ns: f64) -> f64 {
        let requests = if self.slope == 0.0 {
            ns / self.interval_ns
        } else {
            ns * (self.rate + self.slope * ns / 2.0)
        };
        // Behind the last piece the rate of a ramp would go on, and may be below zero.
        let peak_ns = -self.rate / self.slope;
        if self.slope < 0.0 && ns > peak_ns {
            return self.requests;
        }
        requests.min(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn stages(text: &str) -> Vec<Stage> {
        let stages = text.split(',').map(|text| Stage::parse(text).unwrap());
        stages.collect()
    }

    #[test]
    fn a_stage_is_a_time_and_one_rate_or_two() {
        for (text, seconds, from, to, shown) in [
            ("30s:1000", 30, 1000.0, 1000.0, "1 000 events/s for 30s"),
            (" 1m:0..500 ", 60, 0.0, 500.0, "0 to 500 events/s for 1m"),
            ("2s:7.5..0.5", 2, 7.5, 0.5, "8 to 0 events/s for 2s"),
        ] {
            let stage = Stage::parse(text).unwrap();
            let expected = Stage {
                duration: SECOND * seconds,
                from,
                to,
            };
            assert_eq!(stage, expected, "{text}");
            assert_eq!(stage.to_string(), shown);
        }
    }

    #[test]
    fn a_wrong_stage_is_named() {
        for (text, says) in [
            ("1000", "\"1000\" is not TIME:RATE or TIME:FROM..TO"),
            ("long:1", "\"long\" is not a time"),
            ("0s:1", "\"0s:1\" has no length"),
            ("1s:", "\"\" is not a rate"),
            ("1s:1..", "\"\" is not a rate"),
            ("1s:-1", "\"-1\" is not a rate"),
            ("1s:1..inf", "\"inf\" is not a rate"),
        ] {
            let error = Stage::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn requests_of_stages_are_due_by_the_integral_of_the_rate() {
        // 2 requests in the first second, then 2 + 4 in a ramp of two, none, and 1.
        let curve = RateCurve::of_stages(&stages("1s:20,2s:20..40,1s:0,1s:10"), 10.0);
        let due: Vec<_> = (0..10).map(|number| curve.due(number)).collect();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(due[..2], [millis(0), millis(500)]);
        assert_eq!(due[2], millis(1000));
        // 3 = 2 t + t² / 2 with t = √10 - 2.
        let ramp = due[5].unwrap().as_secs_f64();
        assert!((ramp - (10_f64.sqrt() - 1.0)).abs() < 1e-6, "{ramp}");
        let last = due[8].unwrap().as_secs_f64();
        assert!((last - 4.0).abs() < 1e-6, "{last}");
        assert_eq!(due[9], None);
    }

    #[test]
    fn a_ramp_from_nothing_begins_and_a_ramp_to_nothing_ends() {
        for (text, requests) in [("2s:0..100", 100), ("2s:100..0", 100), ("1s:0", 0)] {
            let curve = RateCurve::of_stages(&stages(text), 1.0);
            assert_eq!(curve.due_before(SECOND * 3), requests, "{text}");
            assert_eq!(curve.due_before(Duration::ZERO), 0, "{text}");
        }
    }

    proptest! {
        #[test]
        fn times_and_numbers_of_requests_agree(
            rates in proptest::collection::vec((1..5000_u64, 0..500_u32, 0..500_u32), 1..5),
            events in 1..50_u32,
        ) {
            let stage = |(millis, from, to): &(u64, u32, u32)| Stage {
                duration: Duration::from_millis(*millis),
                from: f64::from(*from),
                to: f64::from(*to),
            };
            let stages: Vec<_> = rates.iter().map(stage).collect();
            let curve = RateCurve::of_stages(&stages, f64::from(events));
            let end: Duration = stages.iter().map(|stage| stage.duration).sum();
            let events_due: f64 = stages
                .iter()
                .map(|stage| stage.duration.as_secs_f64() * f64::midpoint(stage.from, stage.to))
                .sum();
            let due = curve.due_before(end + SECOND);
            prop_assert!((due as f64 - events_due / f64::from(events)).abs() <= 1.0);
            let mut before = Duration::ZERO;
            for number in 0..due {
                let time = curve.due(number).unwrap();
                prop_assert!(before <= time && time <= end, "{before:?} {time:?} {end:?}");
                prop_assert!(curve.due_before(time) <= number);
                prop_assert!(curve.due_before(time + Duration::from_nanos(1)) > number);
                before = time;
            }
            prop_assert_eq!(curve.due(due), None);
        }
    }
}
