//! What one sync commits, as it is gathered.

use crate::Refusal;
use crate::pack::PackedGroup;
use crate::place::Place;
use crate::tally::Admission;
use crate::threads::oneshot;
use millrace_log::Position;

/// What a committed request gets back: where it is, and its buffers.
pub type CommitAnswer = Result<(Position, Vec<PackedGroup>), Refusal>;

/// Rows that are to be stored, all or none.
pub struct Waiting {
    pub groups: Vec<PackedGroup>,
    pub reply: oneshot::Sender<CommitAnswer>,
    /// Place in the queue, if the request is answered already.
    pub place: Option<Place>,
}

/// What is sent to the thread.
pub enum Submission {
    /// Store this.
    Commit(Waiting),
    /// The same, and count its events.
    Counted(Waiting, Admission),
    /// Say where the log ends once all that was sent before this is in it, or refused.
    Mark(oneshot::Sender<Position>),
    /// Store what was sent before this, then end.
    Stop,
}

/// A group under way.
#[derive(Default)]
pub struct Group {
    pub batches: Vec<Waiting>,
    pub admissions: Vec<Admission>,
    pub marks: Vec<oneshot::Sender<Position>>,
    /// Of rows, before compression.
    pub bytes: u64,
}

impl Group {
    /// Adds a submission; false when it was the order to stop.
    pub fn take(&mut self, submission: Submission) -> bool {
        match submission {
            Submission::Commit(batch) => {
                self.add(batch);
                true
            }
            Submission::Counted(batch, admission) => {
                self.add(batch);
                self.admissions.push(admission);
                true
            }
            Submission::Mark(reply) => {
                self.marks.push(reply);
                true
            }
            Submission::Stop => false,
        }
    }

    fn add(&mut self, batch: Waiting) {
        let bytes = batch.groups.iter().map(PackedGroup::uncompressed_bytes);
        self.bytes += bytes.sum::<u64>();
        self.batches.push(batch);
    }

    /// Rows of requests that are answered already.
    pub fn answered_rows(&self) -> u64 {
        let answered = self.batches.iter().filter(|batch| batch.place.is_some());
        let groups = answered.flat_map(|batch| &batch.groups);
        groups.map(PackedGroup::rows).sum()
    }
}
