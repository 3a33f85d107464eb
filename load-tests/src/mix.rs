//! Sizes of requests, taken in turn by their weights.
//!
//! A size is written `EVENTS[xBYTES][=WEIGHT]`: `1=70,20=25,1000xsmall=5` sends 70 single events,
//! 25 batches of 20 and 5 batches of 1000 small events in a hundred requests.

use crate::event_id::BATCH_EVENTS_MAX;
use crate::event_shape::parse_event_bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Highest weight of a size.
const WEIGHT_MAX: u32 = 1_000_000;

/// Size of a request, and its weight among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSize {
    /// Number of events.
    pub events: u32,
    /// Size of one event's JSON in bytes; `None` for that of the plan.
    pub event_bytes: Option<usize>,
    /// Share of the requests, relative to the weights of the other sizes.
    pub weight: u32,
}

/// Order in which requests take variants: evenly spread, each by its weight.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Sums of the weights up to each variant.
    ends: Vec<u64>,
}

impl RequestSize {
    /// Parses a size.
    ///
    /// # Errors
    /// The part that is wrong, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (size, weight) = match text.split_once('=') {
            Some((size, weight)) => (size, Some(weight)),
            None => (text, None),
        };
        let (events, event_bytes) = match size.split_once('x') {
            Some((events, bytes)) => (events, Some(bytes)),
            None => (size, None),
        };
        let number = |what: &str, text: &str, below: u32| {
            let number = text.parse::<u32>().ok().filter(|n| (1..below).contains(n));
            number.ok_or_else(|| format!("{what} {text:?} is not a number from 1 to {}", below - 1))
        };
        Ok(Self {
            events: number("the number of events", events, BATCH_EVENTS_MAX)?,
            event_bytes: event_bytes.map(parse_event_bytes).transpose()?,
            weight: match weight {
                Some(weight) => number("the weight", weight, WEIGHT_MAX + 1)?,
                None => 1,
            },
        })
    }
}

impl fmt::Display for RequestSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.events)?;
        if let Some(bytes) = self.event_bytes {
            write!(f, "x{bytes}")?;
        }
        write!(f, "={}", self.weight)
    }
}

impl Turns {
    /// Order of variants with these weights.
    #[must_use]
    pub fn new(weights: impl IntoIterator<Item = u32>) -> Self {
        let mut end = 0;
        let ends = weights.into_iter().map(|weight| {
            end += u64::from(weight);
            end
        });
        Self {
            ends: ends.collect(),
        }
    }

    /// Index of the variant that a request takes, by its number.
    #[must_use]
    pub fn choose(&self, number: u32) -> usize {
        /// 2 to the 32nd, divided by the square of the plastic number: its multiples spread evenly,
        /// and independently of those of the golden ratio, by which requests get rejected events.
        const STEP: u32 = 0x91e1_0da5;
        let total = self.ends.last().copied().unwrap_or_default();
        let at = (u64::from(number.wrapping_mul(STEP)) * total) >> 32;
        self.ends.partition_point(|end| *end <= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_size_is_events_bytes_and_weight() {
        for (text, events, event_bytes, weight) in [
            ("1", 1, None, 1),
            ("20=25", 20, None, 25),
            (" 250x400 ", 250, Some(400), 1),
            ("1000xsmall=5", 1000, Some(136), 5),
            ("1xdefault=1000000", 1, Some(998), 1_000_000),
        ] {
            let size = RequestSize {
                events,
                event_bytes,
                weight,
            };
            assert_eq!(RequestSize::parse(text), Ok(size), "{text}");
            assert_eq!(RequestSize::parse(&size.to_string()), Ok(size), "{text}");
        }
    }

    #[test]
    fn a_wrong_size_is_named() {
        for (text, says) in [
            ("", "the number of events \"\""),
            ("0", "the number of events \"0\""),
            ("16777216", "is not a number from 1 to 16777215"),
            ("ten", "the number of events \"ten\""),
            ("10x5", "a number from 130"),
            ("10=0", "the weight \"0\""),
            ("10=1000001", "the weight \"1000001\""),
            ("10=1=1", "the weight \"1=1\""),
        ] {
            let error = RequestSize::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn variants_get_their_shares_of_any_thousand_requests(
            weights in proptest::collection::vec(1..100_u32, 1..6),
            first in any::<u32>(),
        ) {
            let turns = Turns::new(weights.iter().copied());
            let mut taken = vec![0_u32; weights.len()];
            for number in 0..1000 {
                taken[turns.choose(first.wrapping_add(number))] += 1;
            }
            let total: u32 = weights.iter().sum();
            for (weight, taken) in weights.iter().zip(&taken) {
                let share = f64::from(*weight) * 1000.0 / f64::from(total);
                let error = (f64::from(*taken) - share).abs();
                prop_assert!(error <= 10.0, "{taken} instead of {share}");
            }
        }
    }

    #[test]
    fn a_single_variant_takes_every_turn() {
        let turns = Turns::new([7]);
        assert!((0..100).all(|number| turns.choose(number) == 0));
    }
}
