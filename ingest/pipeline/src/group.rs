//! What one sync commits, as it is gathered.

use crate::Refusal;
use crate::pack::PackedGroup;
use crate::tally::Admission;
use crate::threads::oneshot;
use millrace_log::Position;

/// What a committed request gets back: where it is, and its buffers.
pub type CommitAnswer = Result<(Position, Vec<PackedGroup>), Refusal>;

/// What is sent to the thread.
pub enum Submission {
    /// Store these groups, all or none.
    Commit {
        groups: Vec<PackedGroup>,
        reply: oneshot::Sender<CommitAnswer>,
    },
    /// The same, and count its events.
    Counted {
        groups: Vec<PackedGroup>,
        reply: oneshot::Sender<CommitAnswer>,
        admission: Admission,
    },
    /// Say where the log ends once all that was sent before this is in it, or refused.
    Mark(oneshot::Sender<Position>),
    /// Store what was sent before this, then end.
    Stop,
}

/// A group under way.
#[derive(Default)]
pub struct Group {
    pub batches: Vec<(Vec<PackedGroup>, oneshot::Sender<CommitAnswer>)>,
    pub admissions: Vec<Admission>,
    pub marks: Vec<oneshot::Sender<Position>>,
    /// Of rows, before compression.
    pub bytes: u64,
}

impl Group {
    /// Adds a submission; false when it was the order to stop.
    pub fn take(&mut self, submission: Submission) -> bool {
        match submission {
            Submission::Commit { groups, reply } => {
                self.add(groups, reply);
                true
            }
            Submission::Counted {
                groups,
                reply,
                admission,
            } => {
                self.add(groups, reply);
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

    fn add(&mut self, groups: Vec<PackedGroup>, reply: oneshot::Sender<CommitAnswer>) {
        let bytes = groups.iter().map(PackedGroup::uncompressed_bytes);
        self.bytes += bytes.sum::<u64>();
        self.batches.push((groups, reply));
    }
}
