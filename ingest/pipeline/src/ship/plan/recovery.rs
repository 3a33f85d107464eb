//! The plan from and to a checkpoint.

use super::Plan;
use crate::ship::checkpoint::{Checkpoint, Range};
use crate::ship::limits::Limits;
use crate::ship::section::Section;
use crate::ship::unit::Unit;

/// An insert of the last checkpoint, and those of its sections that were read again.
#[derive(Debug)]
pub(super) struct Recovering<S> {
    pub(super) range: Range,
    pub(super) sections: Vec<Section<S>>,
}

impl<S: Clone> Plan<S> {
    /// A lane that goes on.
    pub fn restore(limits: Limits, checkpoint: Checkpoint) -> Self {
        let recovering = checkpoint.in_flight.into_iter().map(|range| Recovering {
            range,
            sections: Vec::new(),
        });
        Self {
            recovering: recovering.collect(),
            taken: checkpoint.taken.into_iter().collect(),
            ..Self::new(
                limits,
                checkpoint.salt,
                checkpoint.low,
                checkpoint.suspect_below,
            )
        }
    }

    /// What a restart needs to go on from here.
    pub fn checkpoint(&self) -> Checkpoint {
        let low = self.low();
        let flights = self.in_flight.values().filter_map(|flight| {
            let unit = &flight.unit;
            Some(Range {
                key: unit.key.clone(),
                first: unit.first()?,
                last: unit.last()?,
                rows: unit.range,
                attempt: unit.attempt,
                run: unit.run,
            })
        });
        let recovering = self.recovering.iter().map(|it| it.range.clone());
        let taken = self.taken.iter().filter(|(_, place)| place.frame >= low);
        Checkpoint {
            salt: self.salt,
            low,
            suspect_below: self.suspect_below,
            taken: taken.map(|(key, place)| (key.clone(), *place)).collect(),
            in_flight: flights.chain(recovering).collect(),
        }
    }

    /// Ranges that have all of their sections become units in doubt.
    pub(super) fn finish_recovering(&mut self) {
        let read_to = self.read_to;
        let (done, rest) = std::mem::take(&mut self.recovering)
            .into_iter()
            .partition(|it| it.range.last.frame < read_to);
        self.recovering = rest;
        for Recovering { range, sections } in done {
            if sections.is_empty() {
                tracing::error!(?range, "an insert's frames are gone from the log");
                continue;
            }
            self.add_flight(Unit {
                key: range.key,
                sections,
                range: range.rows,
                attempt: range.attempt,
                in_doubt: true,
                run: range.run,
                is_part: range.rows.is_some(),
            });
        }
    }
}
