//! Converts the plan from and to a checkpoint.

use super::Plan;
use crate::ship::checkpoint::{Checkpoint, RecordedBatch};
use crate::ship::insert_batch::{InsertBatch, LogSpan};
use crate::ship::limits::Limits;
use crate::ship::section::Section;
use millrace_log::Position;

/// A batch of the last checkpoint, with those of its sections that were read again.
#[derive(Debug)]
pub(super) struct RecoveringBatch<S> {
    pub(super) recorded: RecordedBatch,
    pub(super) sections: Vec<Section<S>>,
}

impl<S: Clone> Plan<S> {
    /// The plan of a lane that goes on with a log that was opened at `opened_at`. Sections below
    /// are looked up before they are sent, a batch at a time: the folder may be a copy of one
    /// that has shipped them since.
    pub fn restore(
        limits: Limits,
        checkpoint: Checkpoint,
        start_mark: u32,
        opened_at: Position,
    ) -> Self {
        let recovering = checkpoint
            .in_flight
            .into_iter()
            .map(|recorded| RecoveringBatch {
                recorded,
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

    /// Returns the checkpoint from which a restart goes on.
    pub fn checkpoint(&self) -> Checkpoint {
        let low = self.low();
        let in_flight = self.in_flight.values().map(|in_flight| {
            let batch = &in_flight.batch;
            RecordedBatch {
                key: batch.key.clone(),
                first: batch.span.first,
                last: batch.span.last,
                rows: batch.range,
                start_mark: batch.start_mark,
                rows_mark: batch.rows_mark,
                attempt: batch.attempt,
                is_suspect: batch.is_suspect,
                is_part: batch.is_part,
                boot_id: batch.boot_id,
            }
        });
        let recovering = self.recovering.iter().map(|it| it.recorded.clone());
        let taken = self
            .taken
            .iter()
            .filter(|(_, position)| position.frame >= low);
        Checkpoint {
            salt: self.salt,
            low,
            suspect_below: self.suspect_below,
            taken: taken
                .map(|(key, position)| (key.clone(), *position))
                .collect(),
            in_flight: in_flight.chain(recovering).collect(),
        }
    }

    /// Turns recovered batches that have all of their sections into batches in doubt.
    pub(super) fn finish_recovering(&mut self) {
        let read_to = self.read_to;
        let (done, rest) = std::mem::take(&mut self.recovering)
            .into_iter()
            .partition(|it| it.recorded.last.frame < read_to);
        self.recovering = rest;
        for RecoveringBatch { recorded, sections } in done {
            if sections.is_empty() {
                tracing::error!(range = ?recorded, "an insert's frames are gone from the log");
                continue;
            }
            let (first, last) = (recorded.first, recorded.last);
            self.add_in_flight(InsertBatch {
                key: recorded.key,
                sections,
                span: LogSpan { first, last },
                range: recorded.rows,
                start_mark: recorded.start_mark,
                rows_mark: recorded.rows_mark,
                attempt: recorded.attempt,
                in_doubt: true,
                is_suspect: recorded.is_suspect,
                boot_id: recorded.boot_id,
                // Earlier versions did not record it.
                is_part: recorded.is_part || recorded.rows.is_some(),
            });
        }
    }
}
