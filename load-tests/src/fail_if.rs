//! Conditions under which a run counts as failed, for scripts and CI.
//!
//! A condition is a figure, a comparison and a value: `p99>5ms`, `failed>0`, `failed>=0.1%`,
//! `rate<100000`. A figure that a run does not have, such as a latency without a response, meets
//! every condition: silence is no success.

use crate::digits::grouped;
use crate::summary::{Counts, Percentiles, Summary};
use std::fmt;

/// Condition under which a run has failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    text: String,
    figure: Figure,
    comparison: Comparison,
    /// Value in the figure's unit: milliseconds, a number or a percentage.
    value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Latency(Latency),
    Requests(Requests),
    /// Share of the requests in percent.
    Share(Requests),
    /// Acknowledged events per second.
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Latency {
    Min,
    Mean,
    P50,
    P75,
    P90,
    P95,
    P99,
    P999,
    P9999,
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requests {
    Failed,
    Unsent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const LATENCIES: [(&str, Latency); 10] = [
    ("min", Latency::Min),
    ("mean", Latency::Mean),
    ("p50", Latency::P50),
    ("p75", Latency::P75),
    ("p90", Latency::P90),
    ("p95", Latency::P95),
    ("p99", Latency::P99),
    ("p99.9", Latency::P999),
    ("p99.99", Latency::P9999),
    ("max", Latency::Max),
];
const REQUESTS: [(&str, Requests); 2] =
    [("failed", Requests::Failed), ("unsent", Requests::Unsent)];
const RATE: &str = "rate";
/// Units of time and their lengths in milliseconds.
const TIMES: [(&str, f64); 3] = [("us", 1e-3), ("ms", 1.0), ("s", 1e3)];

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// The part that is wrong, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let at = text.find(['<', '>', '=']).unwrap_or(text.len());
        let (name, rest) = text.split_at(at);
        let comparisons = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ];
        let comparison = comparisons
            .into_iter()
            .find_map(|(sign, comparison)| Some((comparison, rest.strip_prefix(sign)?)));
        let Some((comparison, value)) = comparison else {
            return Err(format!("{text:?} has no >, >=, < or <= behind a figure"));
        };
        let (number, unit) = number(value.trim())?;
        let (figure, scale) = figure(name.trim(), unit)?;
        Ok(Self {
            text: text.to_owned(),
            figure,
            comparison,
            value: number * scale,
        })
    }

    /// Description of the failure if a run meets the condition.
    #[must_use]
    pub fn met_by(&self, summary: &Summary) -> Option<String> {
        let Some(found) = self.figure.of(summary) else {
            return Some(format!("{}: no request was answered", self.text));
        };
        let is_met = match self.comparison {
            Comparison::Above => found > self.value,
            Comparison::AtLeast => found >= self.value,
            Comparison::Below => found < self.value,
            Comparison::AtMost => found <= self.value,
        };
        is_met.then(|| format!("{}: it is {}", self.text, self.figure.shown(found)))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Figure {
    /// Value of a run; `None` if it has no such figure.
    fn of(self, summary: &Summary) -> Option<f64> {
        let counts = &summary.run;
        match self {
            Self::Latency(latency) => {
                (summary.latency.count > 0).then(|| latency.millis(&summary.latency))
            }
            Self::Requests(requests) => Some(requests.count(counts) as f64),
            Self::Share(requests) => {
                let all =
                    counts.acknowledged_requests + counts.failed_requests + counts.unsent_requests;
                (all > 0).then(|| requests.count(counts) as f64 * 100.0 / all as f64)
            }
            Self::Rate => Some(summary.events_per_second),
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Latency(_) => format!("{value:.3} ms"),
            Self::Requests(_) => grouped(value),
            Self::Share(_) => format!("{value:.3} %"),
            Self::Rate => format!("{} events/s", grouped(value)),
        }
    }
}

impl Latency {
    fn millis(self, latency: &Percentiles) -> f64 {
        let micros = match self {
            Self::Min => latency.min_us,
            Self::Mean => latency.mean_us,
            Self::P50 => latency.p50_us,
            Self::P75 => latency.p75_us,
            Self::P90 => latency.p90_us,
            Self::P95 => latency.p95_us,
            Self::P99 => latency.p99_us,
            Self::P999 => latency.p999_us,
            Self::P9999 => latency.p9999_us,
            Self::Max => latency.max_us,
        };
        micros / 1000.0
    }
}

impl Requests {
    const fn count(self, counts: &Counts) -> u64 {
        match self {
            Self::Failed => counts.failed_requests,
            Self::Unsent => counts.unsent_requests,
        }
    }
}

/// Number at the beginning of a value, and the unit behind it.
fn number(value: &str) -> Result<(f64, &str), String> {
    let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
    let unit = value.trim_start_matches(is_digit);
    let digits = value.strip_suffix(unit).unwrap_or_default();
    let number = digits
        .parse()
        .map_err(|_| format!("{value:?} does not begin with a number"))?;
    Ok((number, unit.trim()))
}

/// Figure of a name and a unit, and the length of the unit.
fn figure(name: &str, unit: &str) -> Result<(Figure, f64), String> {
    let latency = LATENCIES.into_iter().find(|(known, _)| *known == name);
    if let Some((_, latency)) = latency {
        let time = TIMES.into_iter().find(|(known, _)| *known == unit);
        let (_, scale) = time.ok_or_else(|| format!("{name} needs a time in us, ms or s"))?;
        return Ok((Figure::Latency(latency), scale));
    }
    let requests = REQUESTS.into_iter().find(|(known, _)| *known == name);
    match (requests, unit) {
        (Some((_, requests)), "") => Ok((Figure::Requests(requests), 1.0)),
        (Some((_, requests)), "%") => Ok((Figure::Share(requests), 1.0)),
        (Some(_), _) => Err(format!("{name} is a number or has %, not {unit:?}")),
        (None, "") if name == RATE => Ok((Figure::Rate, 1.0)),
        (None, _) if name == RATE => Err(format!("{RATE} is in events per second, without a unit")),
        (None, _) => {
            let names = LATENCIES.map(|(name, _)| name).join(", ");
            let requests = REQUESTS.map(|(name, _)| name).join(", ");
            Err(format!(
                "{name:?} is no figure; there are {names}, {requests}, {RATE}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn summary(acknowledged: u64, failed: u64, unsent: u64) -> Summary {
        let counts = serde_json::json!({
            "acknowledged_requests": acknowledged, "acknowledged_events": acknowledged,
            "failed_requests": failed, "unsent_requests": unsent,
        });
        let latency = Percentiles {
            count: acknowledged,
            min_us: 100.0,
            mean_us: 1500.0,
            p50_us: 1000.0,
            p99_us: 5000.0,
            p999_us: 9000.0,
            max_us: 2e6,
            ..Percentiles::default()
        };
        let json = serde_json::json!({
            "run_id": "0", "plan": Plan::new("http://h", "key"), "run": counts, "window": counts,
            "window_seconds": 1.0, "events_per_second": 2500.0, "requests_per_second": 1.0,
            "wire_bytes_per_second": 1.0, "latency": latency, "send_lag": Percentiles::default(),
            "failures": {}, "generator": crate::summary::Load::default(),
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_run_that_meets_a_condition_says_its_figure() {
        let run = summary(990, 6, 4);
        for (text, met) in [
            ("p99>5ms", None),
            ("p99>=5ms", Some("it is 5.000 ms")),
            ("p99 > 4999us", Some("it is 5.000 ms")),
            ("p99.9>8.5ms", Some("it is 9.000 ms")),
            ("max>2s", None),
            ("max>1.999s", Some("it is 2000.000 ms")),
            ("min<100us", None),
            ("mean<=1.5ms", Some("it is 1.500 ms")),
            ("failed>0", Some("it is 6")),
            ("failed>6", None),
            ("failed>0.5%", Some("it is 0.600 %")),
            ("unsent>=0.4 %", Some("it is 0.400 %")),
            ("unsent>4", None),
            ("rate<2500", None),
            (" rate<2500.5 ", Some("it is 2 500 events/s")),
        ] {
            let found = Condition::parse(text).unwrap().met_by(&run);
            let met = met.map(|met| format!("{}: {met}", text.trim()));
            assert_eq!(found, met, "{text}");
        }
    }

    #[test]
    fn a_run_without_responses_meets_every_condition_on_them() {
        let run = summary(0, 0, 0);
        for (text, is_met) in [
            ("p50>1s", true),
            ("p50<1s", true),
            ("failed>50%", true),
            ("failed>0", false),
        ] {
            let found = Condition::parse(text).unwrap().met_by(&run);
            assert_eq!(found.is_some(), is_met, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_wrong_condition_is_named() {
        for (text, says) in [
            ("", "\"\" has no >, >=, < or <= behind a figure"),
            ("p99", "\"p99\" has no >"),
            ("p99=5ms", "\"p99=5ms\" has no >"),
            ("p99>ms", "\"ms\" does not begin with a number"),
            ("p99>-1ms", "\"-1ms\" does not begin with a number"),
            ("p99>1.2.3ms", "does not begin with a number"),
            ("p99>5", "p99 needs a time in us, ms or s"),
            ("p99>5%", "p99 needs a time"),
            ("failed>1ms", "failed is a number or has %, not \"ms\""),
            ("rate<5%", "rate is in events per second"),
            ("p98>5ms", "\"p98\" is no figure; there are min, mean, p50"),
            (">5ms", "\"\" is no figure"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
