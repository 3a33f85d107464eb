//! A request's slot in its lane's queue, from the reservation to the answer.

use crate::capacity::Refusal;
use crate::commit_group::{CommitAnswer, PendingCommit, Submission};
use crate::import_count::ImportReservation;
use crate::pack::{PackedGroup, Packer};
use crate::queue_permit::QueuePermit;
use crate::submit::{Ack, LaneInput, Lanes, Pipeline};
use crate::threads::{TrySendError, oneshot};
use millrace_clickhouse::INSERT_BYTES_MAX;
use millrace_log::Position;
use millrace_rows::{Batch, Lane, RowGroup};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::watch;

/// A committed batch.
#[derive(Debug)]
pub struct Committed {
    /// End of the group that the batch was committed with; `None` with [`Ack::Memory`].
    pub position: Option<Position>,
    /// Row buffers that were in use until now, for reuse by the parser that made them.
    pub spent: Vec<Vec<u8>>,
    /// Outcome of the commit that is still to come, with [`Ack::Memory`].
    pub pending: Option<Pending>,
    /// Wait that is left before the batch may be acknowledged, with [`Ack::ClickHouse`].
    pub shipping: Option<Shipping>,
}

/// A wait until committed rows are in ClickHouse; holds the request's permit of the queue.
#[must_use = "what is not waited for may not be acknowledged"]
pub struct Shipping {
    shipped: watch::Receiver<Position>,
    position: Position,
    _permit: QueuePermit,
}

impl Shipping {
    /// Waits until the rows are in ClickHouse.
    ///
    /// # Errors
    /// When the shipper ends before: then the rows are in the log, and shipped after the next
    /// start.
    pub async fn finished(mut self) -> Result<(), Refusal> {
        let position = self.position;
        let shipped = self.shipped.wait_for(|below| *below >= position).await;
        shipped.map(drop).map_err(|_| Refusal::NotShipped)
    }
}

impl fmt::Debug for Shipping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shipping")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

impl Committed {
    /// Waits until the batch is shipped as well.
    async fn shipped(mut self) -> Result<Self, Refusal> {
        if let Some(shipping) = self.shipping.take() {
            shipping.finished().await?;
        }
        Ok(self)
    }
}

/// A batch that was accepted and is about to be written.
#[derive(Debug)]
pub struct Pending(oneshot::Receiver<CommitAnswer>);

impl Pending {
    /// Waits until it is known whether the batch is stored.
    pub async fn is_stored(self) -> bool {
        matches!(self.0.await, Ok(Ok(_)))
    }
}

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
    /// A slot for capacity that [`reserve`](crate::capacity::QueueCapacity::reserve) took.
    pub(crate) fn new(lanes: Arc<Lanes>, lane: Lane, bytes: usize) -> Self {
        let permit = QueuePermit::new(Arc::clone(&lanes.input(lane).queue), bytes);
        Self {
            lanes,
            lane,
            permit,
        }
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
            self = Pipeline(Arc::clone(&self.lanes)).reserve(batch.lane, self.permit.bytes())?;
        }
        self.reserve_row_bytes(&batch)?;
        let lanes = Arc::clone(&self.lanes);
        let input = lanes.input(batch.lane);
        let (groups, spent) = packed(batch.groups);
        reuse(spent);
        let (reply, answer) = oneshot::channel();
        self.permit.hand_over();
        let queue = Arc::clone(&input.queue);
        // While the log is full, requests wait for the disk, so that nothing more is accepted and
        // lost.
        let is_early = lanes.ack == Ack::Memory && !input.is_log_full.load(Ordering::Acquire);
        // With an early answer the permit stays with the rows, which outlive the request.
        let (kept, permit) = match is_early {
            true => (None, Some(self.permit)),
            false => (Some(self.permit), None),
        };
        let batch = PendingCommit {
            groups,
            reply,
            permit,
        };
        let submission = match reservation {
            None => Submission::Commit(batch),
            Some(reservation) => Submission::Counted(batch, reservation),
        };
        match input.submissions.try_send(submission) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Refusal::QueueFull),
            Err(TrySendError::Disconnected(_)) => return Err(unanswered(input)),
        }
        // A batch sent before the queue was closed is ahead of the order to stop, and will be
        // stored. Otherwise the thread may have ended, which its answer tells.
        if is_early && !queue.is_closed() {
            return Ok(Committed {
                position: None,
                spent: Vec::new(),
                pending: Some(Pending(answer)),
                shipping: None,
            });
        }
        let answered = answer.await;
        let (position, groups) = answered.map_err(|_| unanswered(input))??;
        let shipping = kept.filter(|_| lanes.ack == Ack::ClickHouse);
        Ok(Committed {
            position: (lanes.ack != Ack::Memory).then_some(position),
            spent: recycled(groups),
            pending: None,
            shipping: shipping.map(|permit| Shipping {
                shipped: input.shipped.clone(),
                position,
                _permit: permit,
            }),
        })
    }

    /// Returns the wait that is left before a resent batch may be acknowledged that an earlier
    /// request committed to the lane: with [`Ack::ClickHouse`] until all that is in the log now is
    /// shipped, otherwise none.
    pub fn committed_before(self, lane: Lane) -> Option<Shipping> {
        let input = self.lanes.input(lane);
        (self.lanes.ack == Ack::ClickHouse).then(|| Shipping {
            shipped: input.shipped.clone(),
            position: input.log.synced(),
            _permit: self.permit,
        })
    }

    /// Reserves the bytes by which the batch's rows exceed the body that they came in.
    fn reserve_row_bytes(&mut self, batch: &Batch) -> Result<(), Refusal> {
        let groups = batch.groups.iter();
        if groups.map(|group| group.bytes.len() as u64).max() > Some(INSERT_BYTES_MAX) {
            return Err(Refusal::TooLarge);
        }
        self.permit.reserve_row_bytes(batch.bytes())
    }

    /// Counts the request's bytes as work of the commit thread from now on, as
    /// [`submit`](Self::submit) does; see [`Pipeline::keeps_up`].
    pub fn hand_over(&mut self) {
        self.permit.hand_over();
    }
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
