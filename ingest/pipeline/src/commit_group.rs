//! Group commit: the requests that one sync commits.

use crate::Refusal;
use crate::import_count::ImportReservation;
use crate::pack::PackedGroup;
use crate::threads::oneshot;
use crate::unwritten_rows::UnwrittenRows;
use millrace_log::Position;

/// Answer to a committed request: its position in the log, and its buffers for reuse.
pub type CommitAnswer = Result<(Position, Vec<PackedGroup>), Refusal>;

/// One request's rows that wait for their commit, all or none.
pub struct PendingCommit {
    pub groups: Vec<PackedGroup>,
    pub reply: oneshot::Sender<CommitAnswer>,
    /// Rows with their share of the queue, if the request is answered before they are written.
    pub unwritten: Option<UnwrittenRows>,
}

/// Message to the commit thread.
pub enum Submission {
    /// Store the rows.
    Commit(PendingCommit),
    /// Store the rows and count the import's events.
    Import(PendingCommit, ImportReservation),
    /// Flush barrier: reply with the end of the log once all that was sent before is in it, or
    /// refused.
    FlushBarrier(oneshot::Sender<Position>),
    /// Store what was sent before, then end.
    Stop,
}

impl Submission {
    /// Drops what the commit thread did not take: the request is told so.
    pub fn refuse(self) {
        if let Self::Commit(batch) | Self::Import(batch, _) = self
            && let Some(rows) = batch.unwritten
        {
            rows.settle();
        }
    }
}

/// A group that is being gathered.
#[derive(Default)]
pub struct CommitGroup {
    pub batches: Vec<PendingCommit>,
    pub reservations: Vec<ImportReservation>,
    pub flush_barriers: Vec<oneshot::Sender<Position>>,
    /// Bytes of the rows, before compression.
    pub bytes: u64,
}

impl CommitGroup {
    /// Adds a submission; false when it was the order to stop.
    pub fn take(&mut self, submission: Submission) -> bool {
        match submission {
            Submission::Commit(batch) => {
                self.add(batch);
                true
            }
            Submission::Import(batch, reservation) => {
                self.add(batch);
                self.reservations.push(reservation);
                true
            }
            Submission::FlushBarrier(reply) => {
                self.flush_barriers.push(reply);
                true
            }
            Submission::Stop => false,
        }
    }

    fn add(&mut self, batch: PendingCommit) {
        let bytes = batch.groups.iter().map(PackedGroup::uncompressed_bytes);
        self.bytes += bytes.sum::<u64>();
        self.batches.push(batch);
    }

    /// Rows of requests that are answered already.
    pub fn answered_rows(&self) -> u64 {
        let answered = self.batches.iter();
        let answered = answered.filter_map(|batch| batch.unwritten.as_ref());
        answered.map(UnwrittenRows::rows).sum()
    }
}
