//! The plan from and to a checkpoint.

use super::Plan;
use crate::ship::checkpoint::{Checkpoint, Range};
use crate::ship::limits::Limits;
use crate::ship::section::Section;
use crate::ship::unit::{Ends, Unit};
use millrace_log::Position;

/// An insert of the last checkpoint, and those of its sections that were read again.
#[derive(Debug)]
pub(super) struct Recovering<S> {
    pub(super) range: Range,
    pub(super) sections: Vec<Section<S>>,
}

impl<S: Clone> Plan<S> {
    /// A lane that goes on with a log that was opened at `opened_at`. What waits below is asked for before
    /// it is sent, an insert at a time: the folder may be a copy of one that has shipped it since.
    pub fn restore(
        limits: Limits,
        checkpoint: Checkpoint,
        start_mark: u32,
        opened_at: Position,
    ) -> Self {
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
                start_mark,
                checkpoint.low,
                checkpoint.suspect_below.max(opened_at),
            )
        }
    }

    /// What a restart needs to go on from here.
    pub fn checkpoint(&self) -> Checkpoint {
        let low = self.low();
        let flights = self.in_flight.values().map(|flight| {
            let unit = &flight.unit;
            Range {
                key: unit.key.clone(),
                first: unit.ends.first,
                last: unit.ends.last,
                rows: unit.range,
                start_mark: unit.start_mark,
                attempt: unit.attempt,
                is_suspect: unit.is_suspect,
                is_part: unit.is_part,
                run: unit.run,
            }
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
            let (first, last) = (range.first, range.last);
            self.add_flight(Unit {
                key: range.key,
                sections,
                ends: Ends { first, last },
                range: range.rows,
                start_mark: range.start_mark,
                attempt: range.attempt,
                in_doubt: true,
                is_suspect: range.is_suspect,
                run: range.run,
                // An earlier version did not say so.
                is_part: range.is_part || range.rows.is_some(),
            });
        }
    }
}
