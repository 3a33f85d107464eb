//! A request's place in its lane's queue, from the reservation to the answer.

use crate::group::{CommitAnswer, Submission};
use crate::pack::{PackedGroup, Packer};
use crate::room::{Queue, Refusal};
use crate::submit::{Ack, LaneInput, Lanes, Pipeline};
use crate::tally::Admission;
use crate::threads::oneshot;
use millrace_log::Position;
use millrace_rows::{Batch, Lane};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A committed batch.
#[derive(Debug)]
pub struct Committed {
    /// The end of the group it was committed with; `None` with [`Ack::Memory`].
    pub position: Option<Position>,
    /// What of the batch's row buffers was needed until now, for reuse by the parser that made them.
    pub spent: Vec<Vec<u8>>,
    /// With [`Ack::Memory`], what becomes of it.
    pub pending: Option<Pending>,
}

/// A batch that was taken and is about to be written.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<CommitAnswer>);

impl Pending {
    /// Waits until it is known whether the batch is stored.
    pub async fn is_stored(self) -> bool {
        matches!(self.0.await, Ok(Ok(_)))
    }
}

/// A place in a lane's queue, for one request. Dropping it gives the place back.
#[must_use = "a slot that is dropped gives its place back"]
pub struct Slot {
    lanes: Arc<Lanes>,
    lane: Lane,
    bytes: usize,
    queue: Arc<Queue>,
    /// Whether the commit thread has it.
    is_handed_over: bool,
}

thread_local! {
    /// The compressor of this core.
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
}

impl Slot {
    /// A place that was taken with [`Queue::enter`].
    pub(crate) fn new(lanes: Arc<Lanes>, lane: Lane, bytes: usize) -> Self {
        let queue = Arc::clone(&lanes.input(lane).queue);
        Self {
            lanes,
            lane,
            bytes,
            queue,
            is_handed_over: false,
        }
    }

    /// Hands the batch to the commit thread and waits until it is stored as the pipeline's
    /// [`Ack`] says. Once called, the batch is stored even when the caller goes away.
    ///
    /// The lane is known for sure only after parsing: when the batch's lane is not the reserved
    /// one, the place is exchanged first.
    ///
    /// Row buffers that are not needed while it waits go to `reuse` before.
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn submit(
        self,
        batch: Batch,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        self.store(batch, None, reuse).await
    }

    /// The same for an import, whose events are counted when it is stored. If it is not, they go back.
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn submit_counted(
        self,
        batch: Batch,
        admission: Admission,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        self.store(batch, Some(admission), reuse).await
    }

    async fn store(
        mut self,
        batch: Batch,
        admission: Option<Admission>,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        if batch.lane != self.lane {
            self = Pipeline(Arc::clone(&self.lanes)).reserve(batch.lane, self.bytes)?;
        }
        let lanes = Arc::clone(&self.lanes);
        let input = lanes.input(batch.lane);
        let mut spent = Vec::new();
        let groups = PACKER.with_borrow_mut(|packer| {
            batch
                .groups
                .into_iter()
                .map(|group| packer.pack(group, &mut spent))
                .collect()
        });
        reuse(spent);
        let (reply, answer) = oneshot::channel();
        let submission = match admission {
            None => Submission::Commit { groups, reply },
            Some(admission) => Submission::Counted {
                groups,
                reply,
                admission,
            },
        };
        self.hand_over();
        if input.submissions.try_send(submission).is_err() {
            return Err(self.unanswered(input).unwrap_or(Refusal::QueueFull));
        }
        // Sent before the queue was closed, it is before the order to stop, and will be stored. Otherwise
        // the thread may have ended, which its answer tells.
        if lanes.ack == Ack::Memory && !self.queue.is_closed() {
            return Ok(Committed {
                position: None,
                spent: Vec::new(),
                pending: Some(Pending(answer)),
            });
        }
        let answered = answer.await;
        let (position, groups) =
            answered.map_err(|_| self.unanswered(input).unwrap_or(Refusal::LogFailed))??;
        let mut spent = Vec::new();
        PACKER.with_borrow_mut(|packer| {
            for group in groups {
                match group {
                    PackedGroup::Blocks { blocks, .. } => packer.recycle(blocks),
                    PackedGroup::Rows(group) => spent.push(group.bytes),
                }
            }
        });
        if lanes.ack == Ack::ClickHouse {
            let mut shipped = input.shipped.clone();
            shipped
                .wait_for(|below| *below >= position)
                .await
                .map_err(|_| Refusal::ShuttingDown)?;
        }
        Ok(Committed {
            position: (lanes.ack != Ack::Memory).then_some(position),
            spent,
            pending: None,
        })
    }

    /// Why the commit thread does not take or answer a batch, if it has ended: what comes behind the
    /// order to stop is not stored, and its log is as good as before.
    fn unanswered(&self, input: &LaneInput) -> Option<Refusal> {
        if input.failed.load(Ordering::Acquire) {
            return Some(Refusal::LogFailed);
        }
        self.queue.is_closed().then_some(Refusal::ShuttingDown)
    }

    /// From now on its bytes are work of the commit thread, as [`submit`](Self::submit) has it;
    /// see [`Pipeline::keeps_up`].
    pub fn hand_over(&mut self) {
        if !self.is_handed_over {
            self.queue.hand_over(self.bytes);
            self.is_handed_over = true;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_handed_over {
            self.queue.take_back(self.bytes);
        }
        self.queue.leave(self.bytes);
    }
}
