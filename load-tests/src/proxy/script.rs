//! Faults over time, such as `30s ok`, `2m down`, `20s lost inserts 1/2`.

use super::{Proxy, Rule};
use crate::Stop;
use anyhow::{Context, Error, Result};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Interval at which the request to stop is noticed.
const TICK: Duration = Duration::from_millis(50);

/// A fault, or none, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Length of the step.
    pub length: Duration,
    /// Rule during the step; `None` lets everything through.
    pub rule: Option<Rule>,
}

impl FromStr for Step {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (length, rule) = text
            .trim()
            .split_once(' ')
            .context("a step is a time and a fault, as in `30s down` or `1m ok`")?;
        let length = humantime::parse_duration(length)
            .with_context(|| format!("{length:?} is not a length of time"))?;
        let rule = match rule.trim() {
            "ok" => None,
            rule => Some(rule.parse()?),
        };
        Ok(Self { length, rule })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", humantime::format_duration(self.length))?;
        match &self.rule {
            Some(rule) => rule.fmt(f),
            None => f.write_str("ok"),
        }
    }
}

impl Proxy {
    /// Performs the steps in turn and passes each to `tell` as it begins; ends early when asked to.
    /// Afterwards everything passes.
    pub fn perform(&self, steps: &[Step], stop: &Stop, tell: &mut dyn FnMut(&Step)) {
        for step in steps {
            if stop.is_asked() {
                break;
            }
            match &step.rule {
                Some(rule) => self.set(rule.clone()),
                None => self.lift(),
            }
            tell(step);
            let end = Instant::now() + step.length;
            while !stop.is_asked() && Instant::now() < end {
                std::thread::sleep(TICK.min(end.saturating_duration_since(Instant::now())));
            }
        }
        self.lift();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_parses_and_displays_alike() {
        for text in ["30s ok", "2m down", "20ms lost inserts 1/2"] {
            assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
        }
        for text in ["", "30s", "down", "soon down", "30s nothing"] {
            assert!(text.parse::<Step>().is_err(), "{text}");
        }
    }
}
