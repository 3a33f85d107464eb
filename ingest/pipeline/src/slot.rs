//! A request's place in its lane's queue, from the reservation to the answer.

use crate::group::{CommitAnswer, Submission, Waiting};
use crate::pack::{PackedGroup, Packer};
use crate::place::Place;
use crate::room::Refusal;
use crate::submit::{Ack, LaneInput, Lanes, Pipeline};
use crate::tally::Admission;
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
    /// The end of the group it was committed with; `None` with [`Ack::Memory`].
    pub position: Option<Position>,
    /// What of the batch's row buffers was needed until now, for reuse by the parser that made them.
    pub spent: Vec<Vec<u8>>,
    /// With [`Ack::Memory`], what becomes of it.
    pub pending: Option<Pending>,
    /// With [`Ack::ClickHouse`], what is left to wait for before it may be acknowledged.
    pub shipping: Option<Shipping>,
}

/// A wait until what was committed is in ClickHouse, with its place in the queue.
#[must_use = "what is not waited for may not be acknowledged"]
pub struct Shipping {
    shipped: watch::Receiver<Position>,
    position: Position,
    _place: Place,
}

impl Shipping {
    /// Waits until it is there.
    ///
    /// # Errors
    /// When the shipper ends before: then it is in the log, and shipped after the next start.
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
    /// Waits until it is shipped as well.
    async fn shipped(mut self) -> Result<Self, Refusal> {
        if let Some(shipping) = self.shipping.take() {
            shipping.finished().await?;
        }
        Ok(self)
    }
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
    place: Place,
}

thread_local! {
    /// The compressor of this core.
    static PACKER: RefCell<Packer> = RefCell::new(Packer::new());
}

impl Slot {
    /// A place that was taken with [`enter`](crate::room::Queue::enter).
    pub(crate) fn new(lanes: Arc<Lanes>, lane: Lane, bytes: usize) -> Self {
        let place = Place::new(Arc::clone(&lanes.input(lane).queue), bytes);
        Self { lanes, lane, place }
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
        self.commit(batch, None, reuse).await?.shipped().await
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
        let committed = self.commit(batch, Some(admission), reuse).await?;
        committed.shipped().await
    }

    /// Does what [`submit`](Self::submit) does, and for an import [`submit_counted`](Self::submit_counted), up to where
    /// the batch counts as stored: with [`Ack::ClickHouse`] the caller waits for [`Committed::shipping`].
    ///
    /// # Errors
    /// When the batch was not stored.
    pub async fn commit(
        mut self,
        batch: Batch,
        admission: Option<Admission>,
        reuse: impl FnOnce(Vec<Vec<u8>>),
    ) -> Result<Committed, Refusal> {
        if batch.lane != self.lane {
            self = Pipeline(Arc::clone(&self.lanes)).reserve(batch.lane, self.place.bytes())?;
        }
        self.weigh(&batch)?;
        let lanes = Arc::clone(&self.lanes);
        let input = lanes.input(batch.lane);
        let (groups, spent) = packed(batch.groups);
        reuse(spent);
        let (reply, answer) = oneshot::channel();
        self.place.hand_over();
        let queue = Arc::clone(&input.queue);
        // Whoever comes while there is no room waits for the disk, so that nothing more is taken and dropped.
        let is_early = lanes.ack == Ack::Memory && !input.has_no_room.load(Ordering::Acquire);
        // The place is the rows' then, which stay behind when the request is answered.
        let (kept, place) = match is_early {
            true => (None, Some(self.place)),
            false => (Some(self.place), None),
        };
        let batch = Waiting {
            groups,
            reply,
            place,
        };
        let submission = match admission {
            None => Submission::Commit(batch),
            Some(admission) => Submission::Counted(batch, admission),
        };
        match input.submissions.try_send(submission) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Refusal::QueueFull),
            Err(TrySendError::Disconnected(_)) => return Err(unanswered(input)),
        }
        // Sent before the queue was closed, it is before the order to stop, and will be stored. Otherwise
        // the thread may have ended, which its answer tells.
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
            shipping: shipping.map(|place| Shipping {
                shipped: input.shipped.clone(),
                position,
                _place: place,
            }),
        })
    }

    /// Tells what is left to wait for before a batch may be acknowledged that was committed to the lane when it was
    /// sent before: with [`Ack::ClickHouse`] that all is shipped which is in the log now, otherwise nothing.
    pub fn committed_before(self, lane: Lane) -> Option<Shipping> {
        let input = self.lanes.input(lane);
        (self.lanes.ack == Ack::ClickHouse).then(|| Shipping {
            shipped: input.shipped.clone(),
            position: input.log.synced(),
            _place: self.place,
        })
    }

    /// Has the queue count the batch's rows where they take more room than the body they came in.
    fn weigh(&mut self, batch: &Batch) -> Result<(), Refusal> {
        let groups = batch.groups.iter();
        if groups.map(|group| group.bytes.len() as u64).max() > Some(INSERT_BYTES_MAX) {
            return Err(Refusal::TooLarge);
        }
        self.place.weigh(batch.bytes())
    }

    /// From now on its bytes are work of the commit thread, as [`submit`](Self::submit) has it;
    /// see [`Pipeline::keeps_up`].
    pub fn hand_over(&mut self) {
        self.place.hand_over();
    }
}

/// Why the commit thread, which has ended, does not take or answer a batch: what comes behind the order to
/// stop is not stored, and its log is as good as before. Of a thread that panicked nobody knows what it stored.
fn unanswered(input: &LaneInput) -> Refusal {
    let has_failed = input.failed.load(Ordering::Acquire);
    match input.ended_well.load(Ordering::Acquire) && !has_failed {
        true => Refusal::ShuttingDown,
        false => Refusal::LogFailed,
    }
}

/// Makes groups ready to travel; gives back the row buffers that are no longer needed.
fn packed(groups: Vec<RowGroup>) -> (Vec<PackedGroup>, Vec<Vec<u8>>) {
    let mut spent = Vec::new();
    let groups = PACKER.with_borrow_mut(|packer| {
        let groups = groups.into_iter();
        groups.map(|group| packer.pack(group, &mut spent)).collect()
    });
    (groups, spent)
}

/// Takes back the buffers of groups that were stored; those of rows are returned.
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
