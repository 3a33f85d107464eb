//! Committed batches, and what is left to wait for.

use crate::capacity::Refusal;
use crate::commit_group::CommitAnswer;
use crate::lanes::LaneInput;
use crate::queue_permit::QueuePermit;
use crate::threads::oneshot;
use millrace_log::Position;
use std::fmt;
use tokio::sync::watch;

/// A committed batch.
#[derive(Debug)]
pub struct Committed {
    /// End of the group that the batch was committed with; `None` with `Ack::Memory`.
    pub position: Option<Position>,
    /// Row buffers that were in use until now, for reuse by the parser that made them.
    pub spent: Vec<Vec<u8>>,
    /// Outcome of the commit that is still to come, with `Ack::Memory`.
    pub pending: Option<Pending>,
    /// Wait that is left before the batch may be acknowledged, with `Ack::ClickHouse`.
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
    /// A wait until everything below a position of a lane's log is in ClickHouse.
    pub(crate) fn until(position: Position, input: &LaneInput, permit: QueuePermit) -> Self {
        Self {
            shipped: input.shipped.clone(),
            position,
            _permit: permit,
        }
    }

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
    /// A batch that counts as stored while it waits for its commit.
    pub(crate) fn before_commit(answer: oneshot::Receiver<CommitAnswer>) -> Self {
        Self {
            position: None,
            spent: Vec::new(),
            pending: Some(Pending(answer)),
            shipping: None,
        }
    }

    /// Waits until the batch is shipped as well.
    pub(crate) async fn shipped(mut self) -> Result<Self, Refusal> {
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
    /// Waits until it is known whether the batch is stored; returns the end of the group that it
    /// was committed with, or `None` if it is not stored.
    pub async fn position(self) -> Option<Position> {
        match self.0.await {
            Ok(Ok((position, _))) => Some(position),
            _ => None,
        }
    }
}
