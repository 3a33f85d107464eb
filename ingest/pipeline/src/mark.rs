//! Waiting until all that was submitted so far is in ClickHouse.
//!
//! A mark goes through a lane's channel behind what was submitted before it, with any
//! [`Ack`](crate::Ack): the commit thread answers it with the end of the log, once all of that is
//! synced or refused. What the log held from before the start lies below it, too. Whatever the
//! shipper has settled counts as shipped: rows that ClickHouse cannot read are set aside, and
//! damaged frames are gone.

use crate::group::Submission;
use crate::submit::{LaneInput, Pipeline};
use crate::threads::{TrySendError, oneshot};
use millrace_log::Position;
use millrace_rows::Lane;
use std::future::pending;
use std::time::Duration;

/// How long a mark waits for a place in a channel that is full.
const PLACE_PAUSE: Duration = Duration::from_millis(20);

impl Pipeline {
    /// Waits until everything that was submitted before the call, to either lane, is in ClickHouse or
    /// set aside. It never returns once a log has failed or a shipper has ended: then it is not known.
    pub async fn everything_shipped(&self) {
        let mut ends = Vec::with_capacity(Lane::ALL.len());
        for lane in Lane::ALL {
            ends.push((lane, end_of_submitted(self.0.input(lane)).await));
        }
        for (lane, end) in ends {
            let mut shipped = self.0.input(lane).shipped.clone();
            let is_shipped = shipped.wait_for(|below| *below >= end).await.is_ok();
            if !is_shipped {
                pending::<()>().await;
            }
        }
    }

    /// Whether nothing is left in the logs that is not in ClickHouse or set aside. Meant for the end:
    /// it says nothing of requests whose commit is under way.
    #[must_use]
    pub fn is_all_shipped(&self) -> bool {
        Lane::ALL.into_iter().all(|lane| {
            let input = self.0.input(lane);
            let shipped = *input.shipped.borrow();
            input.log.failure().is_none() && shipped >= input.log.synced()
        })
    }
}

async fn end_of_submitted(input: &LaneInput) -> Position {
    loop {
        let (reply, end) = oneshot::channel();
        match input.submissions.try_send(Submission::Mark(reply)) {
            Ok(()) => match end.await {
                Ok(end) => return end,
                Err(_) => pending().await,
            },
            Err(TrySendError::Full(_)) => tokio::time::sleep(PLACE_PAUSE).await,
            Err(TrySendError::Disconnected(_)) => pending().await,
        }
    }
}
