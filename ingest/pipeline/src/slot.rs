//! A request's slot in its lane's queue, from the reservation to the answer.

use crate::capacity::Refusal;
use crate::commit_group::{PendingCommit, Submission};
use crate::committed::{Committed, Shipping};
use crate::import_count::ImportReservation;
use crate::lanes::{Ack, LaneInput, Lanes};
use crate::pack::{PackedGroup, Packer};
use crate::queue_permit::QueuePermit;
use crate::threads::{TrySendError, oneshot};
use crate::unwritten_rows::UnwrittenRows;
use millrace_rows::{Batch, Lane, RowGroup};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Capacity in a lane's queue, reserved for one request. Dropping the slot gives it back.
#[must_use = "a slot that is dropped gives its permit back"]
pub struct Slot {
    lanes: Arc<Lanes>,
    lane: Lane,
    permit: QueuePermit,
}

thread_local! {
    /// Compressor of this core.
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
}

impl Slot {
    /// Reserves capacity for a request whose body has so many bytes.
    pub(crate) fn reserve(lanes: Arc<Lanes>, lane: Lane, bytes: usize) -> Result<Self, Refusal> {
        lanes.can_store(lane)?;
        let queue = &lanes.input(lane).queue;
        queue.reserve(bytes)?;
        let permit = QueuePermit::new(Arc::clone(queue), bytes);
        Ok(Self {
            lanes,
            lane,
            permit,
        })
    }

    /// Hands the batch to the commit thread and waits until it is stored as the pipeline's
    /// [`Ack`] says. Once called, the batch is stored even when the caller goes away.
    ///
    /// The lane is known for sure only after parsing: when the batch's lane is not the reserved
    /// one, the slot is exchanged first.
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
        self.commit(batch, None, reuse).await?.shipped().await
    }

    /// Submits a batch of an import, whose events are counted when it is stored. If it is not, the
    /// reservation is refunded.
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn submit_counted(
        self,
        batch: Batch,
        reservation: ImportReservation,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        let committed = self.commit(batch, Some(reservation), reuse).await?;
        committed.shipped().await
    }

    /// Submits like [`submit`](Self::submit), or for an import like
    /// [`submit_counted`](Self::submit_counted), and returns once the batch counts as stored: with
    /// [`Ack::ClickHouse`] the caller waits for [`Committed::shipping`].
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn commit(
        mut self,
        batch: Batch,
        reservation: Option<ImportReservation>,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        if batch.lane != self.lane {
            // The new lane may refuse: until then the request holds its first slot.
            let lanes = Arc::clone(&self.lanes);
            self = Self::reserve(lanes, batch.lane, self.permit.bytes())?;
        }
        self.reserve_row_bytes(&batch)?;
        let (groups, spent) = packed(batch.groups);
        reuse(spent);
        self.hand_over();
        let is_early = self.answers_early();
        let Self {
            lanes,
            lane,
            permit,
        } = self;
        let input = lanes.input(lane);
        // With an early answer the permit stays with the rows, which outlive the request.
        let (own_permit, unwritten) = match is_early {
            true => {
                let rows = UnwrittenRows::new(lane, &input.ended_well, &groups, permit);
                (None, Some(rows))
            }
            false => (Some(permit), None),
        };
        let (reply, answer) = oneshot::channel();
        let batch = PendingCommit {
            groups,
            reply,
            unwritten,
        };
        send(input, batch, reservation)?;
        // A batch sent before the queue was closed is ahead of the order to stop, and will be
        // stored. Otherwise the thread may have ended, which its answer tells.
        if is_early && !input.queue.is_closed() {
            return Ok(Committed::before_commit(answer));
        }
        let (position, groups) = answer.await.map_err(|_| unanswered(input))??;
        let until_shipped = own_permit.filter(|_| lanes.ack == Ack::ClickHouse);
        Ok(Committed {
            position: (lanes.ack != Ack::Memory).then_some(position),
            spent: recycled(groups),
            pending: None,
            shipping: until_shipped.map(|permit| Shipping::until(position, input, permit)),
        })
    }

    /// Returns true if the request is answered before its rows are written. While the log is full,
    /// requests wait for the disk, so that nothing more is accepted and lost.
    fn answers_early(&self) -> bool {
        let input = self.lanes.input(self.lane);
        self.lanes.ack == Ack::Memory && !input.is_log_full.load(Ordering::Acquire)
    }

    /// Returns the wait that is left before a resent batch may be acknowledged that an earlier
    /// request committed to the lane: with [`Ack::ClickHouse`] until all that is in the log now is
    /// shipped, otherwise none.
    pub fn committed_before(self, lane: Lane) -> Option<Shipping> {
        let input = self.lanes.input(lane);
        let waits = self.lanes.ack == Ack::ClickHouse;
        waits.then(|| Shipping::until(input.log.synced(), input, self.permit))
    }

    /// Reserves the bytes by which the batch's rows exceed the body that they came in.
    fn reserve_row_bytes(&mut self, batch: &Batch) -> Result<(), Refusal> {
        let groups = batch.groups.iter();
        let largest = groups.map(|group| group.bytes.len() as u64).max();
        if largest > Some(self.lanes.insert_bytes_max) {
            return Err(Refusal::TooLarge);
        }
        self.permit.reserve_row_bytes(batch.bytes())
    }

    /// Counts the request's bytes as work of the commit thread from now on, as
    /// [`submit`](Self::submit) does; see [`keeps_up`](crate::Pipeline::keeps_up).
    pub fn hand_over(&mut self) {
        self.permit.hand_over();
    }
}

/// Sends a batch to the commit thread, with the reservation of an import.
fn send(
    input: &LaneInput,
    batch: PendingCommit,
    reservation: Option<ImportReservation>,
) -> Result<(), Refusal> {
    let submission = match reservation {
        None => Submission::Commit(batch),
        Some(reservation) => Submission::Import(batch, reservation),
    };
    let (submission, refusal) = match input.submissions.try_send(submission) {
        Ok(()) => return Ok(()),
        Err(TrySendError::Full(submission)) => (submission, Refusal::QueueFull),
        Err(TrySendError::Disconnected(submission)) => (submission, unanswered(input)),
    };
    submission.refuse();
    Err(refusal)
}

/// Returns the reason why the commit thread, which has ended, does not take or answer a batch.
/// After an orderly stop nothing more is stored, and the log is intact; what a thread that panicked
/// has stored is unknown.
fn unanswered(input: &LaneInput) -> Refusal {
    let has_failed = input.failed.load(Ordering::Acquire);
    match input.ended_well.load(Ordering::Acquire) && !has_failed {
        true => Refusal::ShuttingDown,
        false => Refusal::LogFailed,
    }
}

/// Packs groups for the commit thread; returns them with the row buffers that are no longer needed.
fn packed(groups: Vec<RowGroup>) -> (Vec<PackedGroup>, Vec<Vec<u8>>) {
    let mut spent = Vec::new();
    let groups = PACKER.with_borrow_mut(|packer| {
        let groups = groups.into_iter();
        groups.map(|group| packer.pack(group, &mut spent)).collect()
    });
    (groups, spent)
}

/// Recycles the buffers of stored groups; returns the row buffers.
fn recycled(groups: Vec<PackedGroup>) -> Vec<Vec<u8>> {
    let mut spent = Vec::new();
    PACKER.with_borrow_mut(|packer| {
        for group in groups {
            match group {
                PackedGroup::Blocks { blocks, .. } => packer.recycle(blocks),
                PackedGroup::Rows(group) => spent.push(group.bytes),
            }
        }
    });
    spent
}
