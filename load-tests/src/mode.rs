//! Order of requests in time: closed or open loop.

use crate::digits::grouped;
use crate::stages::{RateCurve, Stage};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Order of requests in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each connection sends its next request after the last response. This finds the capacity; its
    /// latencies flatter a slow server, as nothing is sent while it is slow.
    Closed,
    /// Requests are due at fixed times, whatever the server does. Latency counts from the time a
    /// request was due (no coordinated omission).
    Open {
        /// Events due per second, over all connections.
        events_per_second: f64,
    },
    /// An open loop whose rate changes. The warm-up has the rate of the beginning.
    Stages(Vec<Stage>),
}

impl Mode {
    /// Returns true for an open loop.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        !matches!(self, Self::Closed)
    }

    /// Times when requests with so many events on average are due; `None` in a closed loop.
    #[must_use]
    pub fn curve(&self, warm_up: Duration, events: f64) -> Option<RateCurve> {
        match self {
            Self::Closed => None,
            Self::Open { events_per_second } => {
                Some(RateCurve::constant(*events_per_second, events))
            }
            Self::Stages(stages) => {
                let warm_up = stages.first().map(|first| Stage {
                    duration: warm_up,
                    to: first.from,
                    ..*first
                });
                Some(RateCurve::of_stages(warm_up.iter().chain(stages), events))
            }
        }
    }

    /// Mode of two runs at the same time, whose rates are added; `None` if they differ in kind.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Closed, Self::Closed) => Some(Self::Closed),
            (
                Self::Open {
                    events_per_second: one,
                },
                Self::Open {
                    events_per_second: other,
                },
            ) => Some(Self::Open {
                events_per_second: one + other,
            }),
            (Self::Stages(ones), Self::Stages(others)) if ones.len() == others.len() => {
                let sums = ones.iter().zip(others).map(|(one, other)| one.plus(other));
                sums.collect::<Option<_>>().map(Self::Stages)
            }
            _ => None,
        }
    }

    /// Checks that the loop can run.
    ///
    /// # Errors
    /// No request would ever be due, or a rate is no number.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Closed => {}
            Self::Open { events_per_second } => ensure!(
                events_per_second.is_finite() && *events_per_second > 0.0,
                "--rate must be above 0"
            ),
            Self::Stages(stages) => {
                let mut rates = stages.iter().flat_map(|stage| [stage.from, stage.to]);
                ensure!(
                    rates.all(|rate| rate.is_finite() && rate >= 0.0),
                    "a rate of --stage must be a number of at least 0"
                );
                let mut rates = stages.iter().flat_map(|stage| [stage.from, stage.to]);
                ensure!(
                    rates.any(|rate| rate > 0.0),
                    "a --stage must have a rate above 0"
                );
            }
        }
        Ok(())
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed loop"),
            Self::Open { events_per_second } => {
                write!(f, "open loop at {} events/s", grouped(*events_per_second))
            }
            Self::Stages(stages) => {
                let stages: Vec<_> = stages.iter().map(Stage::to_string).collect();
                write!(f, "open loop of {}", stages.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(from: f64, to: f64) -> Stage {
        Stage {
            duration: Duration::from_secs(10),
            from,
            to,
        }
    }

    #[test]
    fn a_warm_up_has_the_rate_of_the_first_stage() {
        let mode = Mode::Stages(vec![stage(100.0, 300.0), stage(300.0, 0.0)]);
        let curve = mode.curve(Duration::from_secs(2), 10.0).unwrap();
        for (seconds, requests) in [(1, 10), (2, 20), (12, 220), (22, 370), (100, 370)] {
            assert_eq!(curve.due_before(Duration::from_secs(seconds)), requests);
        }
        assert_eq!(
            mode.to_string(),
            "open loop of 100 to 300 events/s for 10s, 300 to 0 events/s for 10s"
        );
    }

    #[test]
    fn rates_of_two_runs_of_one_kind_are_added() {
        let open = |events_per_second| Mode::Open { events_per_second };
        let stages = |from, to| Mode::Stages(vec![stage(from, to)]);
        let long = Stage {
            duration: Duration::from_secs(11),
            ..stage(1.0, 2.0)
        };
        for (one, other, sum) in [
            (Mode::Closed, Mode::Closed, Some(Mode::Closed)),
            (open(1.0), open(2.5), Some(open(3.5))),
            (stages(1.0, 2.0), stages(3.0, 5.0), Some(stages(4.0, 7.0))),
            (stages(1.0, 2.0), Mode::Stages(vec![long]), None),
            (stages(1.0, 2.0), Mode::Stages(Vec::new()), None),
            (open(1.0), stages(1.0, 1.0), None),
            (Mode::Closed, open(1.0), None),
        ] {
            assert_eq!(one.plus(&other), sum, "{one} and {other}");
            assert_eq!(other.plus(&one), sum, "{other} and {one}");
        }
    }

    #[test]
    fn a_loop_in_which_nothing_is_due_cannot_run() {
        for (mode, says) in [
            (Mode::Closed, ""),
            (Mode::Stages(vec![stage(0.0, 1.0)]), ""),
            (Mode::Stages(vec![stage(0.0, 0.0)]), "above 0"),
            (Mode::Stages(Vec::new()), "above 0"),
            (Mode::Stages(vec![stage(-1.0, 1.0)]), "at least 0"),
            (Mode::Stages(vec![stage(f64::NAN, 1.0)]), "at least 0"),
        ] {
            let error = mode.check().err().map(|error| error.to_string());
            let is_expected = error.as_ref().map_or(says.is_empty(), |error| {
                !says.is_empty() && error.contains(says)
            });
            assert!(is_expected, "{mode}: {error:?}");
        }
    }

    #[test]
    fn a_mode_survives_a_result_file() {
        for (mode, json) in [
            (Mode::Closed, "\"closed\""),
            (
                Mode::Open {
                    events_per_second: 5.0,
                },
                "{\"open\":{\"events_per_second\":5.0}}",
            ),
            (
                Mode::Stages(vec![stage(1.0, 2.0)]),
                "{\"stages\":[{\"duration\":{\"secs\":10,\"nanos\":0},\"from\":1.0,\"to\":2.0}]}",
            ),
        ] {
            assert_eq!(serde_json::to_string(&mode).unwrap(), json);
            assert_eq!(serde_json::from_str::<Mode>(json).unwrap(), mode);
        }
    }
}
