//! Flush barriers: waiting until all that was submitted so far is in ClickHouse.
//!
//! A barrier goes through a lane's channel behind what was submitted before it, with any
//! [`Ack`](crate::Ack): the commit thread answers it with the end of the log, once all of that is
//! synced or refused. Rows that the log held at the start lie below that end, too. Whatever the
//! shipper has settled counts as shipped: rows that ClickHouse cannot read are dead-lettered, and
//! damaged frames are gone.

use crate::commit_group::Submission;
use crate::lanes::LaneInput;
use crate::pipeline::Pipeline;
use crate::threads::{TrySendError, oneshot};
use millrace_log::Position;
use millrace_rows::Lane;
use std::future::pending;
use std::time::Duration;
use tokio::sync::watch;

/// Pause before a barrier tries a full channel again.
const FULL_PAUSE: Duration = Duration::from_millis(20);

/// End of each lane's log at a flush barrier: all that was submitted before lies below.
#[derive(Clone, Debug)]
pub struct FlushEnds(Vec<(Lane, Position)>);

impl Pipeline {
    /// Waits until everything that was submitted before the call, to either lane, is in ClickHouse
    /// or dead-lettered. Never returns once a log has failed or a shipper has ended: then nobody
    /// knows.
    pub async fn wait_for_flush(&self) {
        let ends = self.flush_ends().await;
        self.wait_until_shipped(&ends).await;
    }

    /// Sends a barrier through each lane, and returns the ends of the logs that it was answered
    /// with. Never returns once a log has failed.
    pub async fn flush_ends(&self) -> FlushEnds {
        let mut ends = Vec::with_capacity(Lane::ALL.len());
        for lane in Lane::ALL {
            ends.push((lane, end_of_submitted(self.0.input(lane)).await));
        }
        FlushEnds(ends)
    }

    /// Waits until everything below these ends is in ClickHouse or dead-lettered. Never returns
    /// once a shipper has ended.
    pub async fn wait_until_shipped(&self, ends: &FlushEnds) {
        for (lane, end) in &ends.0 {
            until(self.0.input(*lane).shipped.clone(), end).await;
        }
    }

    /// Has all person updates below these ends sent, and waits until they are in ClickHouse or
    /// dead-lettered; they do not wait for rows of other tables, nor for more of their own. Never
    /// returns once a shipper has ended.
    pub async fn wait_until_updates_shipped(&self, ends: &FlushEnds) {
        for (lane, end) in &ends.0 {
            self.0.input(*lane).updates_wanted.send_replace(*end);
        }
        for (lane, end) in &ends.0 {
            until(self.0.input(*lane).updates_shipped.clone(), end).await;
        }
    }

    /// Returns true if everything in the logs is in ClickHouse or dead-lettered. Meant for
    /// shutdown: requests whose commit is under way do not count.
    #[must_use]
    pub fn is_all_shipped(&self) -> bool {
        Lane::ALL.into_iter().all(|lane| {
            let input = self.0.input(lane);
            let shipped = *input.shipped.borrow();
            input.log.failure().is_none() && shipped >= input.log.synced()
        })
    }
}

/// Waits until a position is reached; for ever once nobody moves it any more.
async fn until(mut shipped: watch::Receiver<Position>, end: &Position) {
    let is_shipped = shipped.wait_for(|below| below >= end).await.is_ok();
    if !is_shipped {
        pending::<()>().await;
    }
}

async fn end_of_submitted(input: &LaneInput) -> Position {
    loop {
        let (reply, end) = oneshot::channel();
        match input.submissions.try_send(Submission::FlushBarrier(reply)) {
            Ok(()) => match end.await {
                Ok(end) => return end,
                Err(_) => pending().await,
            },
            Err(TrySendError::Full(_)) => tokio::time::sleep(FULL_PAUSE).await,
            Err(TrySendError::Disconnected(_)) => pending().await,
        }
    }
}
