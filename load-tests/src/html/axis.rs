//! Axes of plots: ranges and labels.

use super::units::{count_text, latency_text};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// Approximate number of labels on an axis, upwards and to the right.
const TICKS: f64 = 5.0;
const SECONDS_TICKS: f64 = 10.0;
/// Factors of powers of ten for the ticks of a logarithmic axis: the first of these that make at
/// most [`LOG_TICKS_MAX`] ticks.
const LOG_STEPS: [&[f64]; 4] = [
    &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
    ENDS,
    &[1.0, 3.0],
    &[1.0],
];
const LOG_TICKS_MAX: usize = 8;
/// Factors of powers of ten at which a logarithmic axis may end.
const ENDS: &[f64] = &[1.0, 2.0, 5.0];

/// An axis of a plot. Its range and its values are logarithms if it is logarithmic.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    range: Range<f64>,
    ticks: Vec<Tick>,
}

#[derive(Clone, Debug, PartialEq)]
struct Tick {
    at: f64,
    label: String,
}

impl Axis {
    /// Axis of seconds, from the beginning of a warm-up (0 or negative) to the end.
    #[must_use]
    pub fn seconds(from: f64, to: f64) -> Self {
        let to = to.max(from + 0.001);
        let step = step((to - from) / SECONDS_TICKS);
        Self::of(from..to, step, |value| {
            // Steps are fractions of a second in short runs.
            let digits = usize::from(step < 1.0) + usize::from(step < 0.1);
            format!("{value:.digits$}")
        })
    }

    /// Axis from zero to a highest value, labelled by `label`.
    #[must_use]
    pub fn from_zero(max: f64, label: impl Fn(f64) -> String) -> Self {
        let max = if max > 0.0 { max } else { 1.0 };
        let step = step(max / TICKS);
        Self::of(0.0..(max / step).ceil() * step, step, label)
    }

    /// Axis of counts, with labels such as `1.5 M`.
    #[must_use]
    pub fn counts(max: f64) -> Self {
        Self::from_zero(max, count_text)
    }

    /// Logarithmic axis of latencies: equal ratios have equal distances.
    #[must_use]
    pub fn latency(min_us: f64, max_us: f64) -> Self {
        let min_us = min_us.max(1.0);
        let max_us = max_us.max(min_us * 1.01);
        let around = ticks_between(min_us / 10.0, max_us * 10.0, ENDS);
        let below = around.iter().rfind(|end| **end <= min_us);
        let above = around.iter().find(|end| **end >= max_us);
        let (low, high) = (*below.unwrap_or(&min_us), *above.unwrap_or(&max_us));
        let tries = LOG_STEPS.map(|steps| ticks_between(low, high, steps));
        let fits = tries.iter().find(|ticks| ticks.len() <= LOG_TICKS_MAX);
        let ticks = fits.or(tries.last()).cloned().unwrap_or_default();
        Self {
            range: low.log10()..high.log10(),
            ticks: ticks
                .into_iter()
                .map(|micros| Tick {
                    at: micros.log10(),
                    label: latency_text(micros),
                })
                .collect(),
        }
    }

    /// Axis of the percentiles of `count` values: each nine takes as much space as the one before.
    #[must_use]
    pub fn percentiles(count: u64) -> Self {
        let nines = (count.max(10) as f64).log10();
        // Labels grow with their nines, so that of many only every other one fits.
        let every = if nines < 6.0 { 1 } else { 2 };
        let mut ticks = vec![Tick {
            at: percentile_at(0.5, count),
            label: "p50".to_owned(),
        }];
        for nine in (1..=nines as usize).step_by(every) {
            let digits = nine.saturating_sub(2);
            let part = 100.0 - 100.0 * 0.1_f64.powf(nine as f64);
            ticks.push(Tick {
                at: nine as f64,
                label: format!("p{part:.digits$}"),
            });
        }
        Self {
            range: 0.0..nines,
            ticks,
        }
    }

    fn of(range: Range<f64>, step: f64, label: impl Fn(f64) -> String) -> Self {
        let (first, last) = (range.start / step, range.end / step);
        let numbers = (first - 1e-9).ceil() as i64..=(last + 1e-9).floor() as i64;
        let ticks = numbers.map(|number| {
            let at = number as f64 * step;
            Tick {
                at,
                label: label(at),
            }
        });
        Self {
            ticks: ticks.collect(),
            range,
        }
    }

    /// Label of the tick at this value.
    #[must_use]
    pub fn label(&self, at: f64) -> &str {
        let tick = self.ticks.iter().find(|tick| (tick.at - at).abs() < 1e-9);
        tick.map_or("", |tick| &tick.label)
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (low, high): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        low + (f64::from(high - low) * part).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.iter().map(|tick| tick.at).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Position of a quantile on an axis of percentiles; the slowest of `count` values is its end.
#[must_use]
pub fn percentile_at(quantile: f64, count: u64) -> f64 {
    let most = (count.max(10) as f64).log10();
    let rest = 1.0 - quantile;
    if rest > 0.0 {
        (-rest.log10()).min(most)
    } else {
        most
    }
}

/// Next higher step that is 1, 2 or 5 times a power of ten.
fn step(exact: f64) -> f64 {
    let ten = 10_f64.powf(exact.log10().floor());
    let fits = [1.0, 2.0, 5.0].into_iter().find(|s| s * ten >= exact);
    fits.unwrap_or(10.0) * ten
}

/// All products of `steps` and powers of ten in a range.
fn ticks_between(low: f64, high: f64, steps: &[f64]) -> Vec<f64> {
    let tens = low.log10().floor() as i32..=high.log10().floor() as i32;
    tens.flat_map(|ten| steps.iter().map(move |step| step * 10_f64.powi(ten)))
        .filter(|value| (low * 0.999..=high * 1.001).contains(value))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn labels_are_round_and_neither_few_nor_many() {
        for (axis, expected) in [
            (
                Axis::seconds(-2.0, 10.0),
                &["-2", "0", "2", "4", "6", "8", "10"][..],
            ),
            (
                Axis::seconds(0.0, 0.25),
                &["0.00", "0.05", "0.10", "0.15", "0.20", "0.25"],
            ),
            (Axis::counts(1_234_567.0), &["0", "500 k", "1 M", "1.5 M"]),
            (Axis::counts(0.0), &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (
                Axis::latency(300.0, 7_000.0),
                &["200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms"],
            ),
            (
                Axis::latency(2_100.0, 2_400.0),
                &["2 ms", "3 ms", "4 ms", "5 ms"],
            ),
            (
                Axis::latency(70.0, 3e6),
                &["100 µs", "1 ms", "10 ms", "100 ms", "1 s"],
            ),
            (
                Axis::percentiles(12_345),
                &["p50", "p90", "p99", "p99.9", "p99.99"],
            ),
        ] {
            assert_eq!(labels(&axis), expected);
        }
    }

    #[test]
    fn every_value_is_on_its_axis() {
        for max in [0.001, 1.0, 999.0, 1e9] {
            assert!(Axis::counts(max).range().end >= max);
            let range = Axis::latency(max, max).range();
            assert!(range.start < range.end, "{range:?}");
        }
        for quantile in [0.0, 0.5, 0.999_999, 1.0] {
            let at = percentile_at(quantile, 1000);
            assert!((0.0..=3.0).contains(&at), "{at}");
        }
        let empty = Axis::seconds(0.0, 0.0).range();
        assert!(empty.start < empty.end);
    }
}
