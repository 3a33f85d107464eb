//! Hold of a log's backlog: while another process may ship rows that this log has, too, as one
//! folder is a copy of the other, this one ships nothing. Both would look the rows up before either
//! has stored them, and store them twice.
//!
//! Requests are answered meanwhile.

use crate::starts_file::OriginalNode;
use millrace_catalog::{Catalog, NODE_SILENCE_MAX, Nodes, UtcTime};
use millrace_pipeline::ship::ShipError;
use millrace_rows::{Clock, SystemClock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Interval and timeout of looking at the origin.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Processes that may ship rows of this folder's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BacklogHold {
    /// True if the process that had the name of this node before may still run. It ends within
    /// [`NODE_SILENCE_MAX`], when it hears of this start.
    pub is_taken_over: bool,
    /// Node whose folder this one is a copy of, if it runs.
    pub origin: Option<OriginalNode>,
}

impl BacklogHold {
    /// Begins to wait until nobody else may ship the rows. The receiver then has `true`; `None` if
    /// nobody may.
    pub fn begin(self, catalog: Catalog) -> Option<watch::Receiver<bool>> {
        if self == Self::default() {
            return None;
        }
        let (sender, released) = watch::channel(false);
        self.release(catalog, sender);
        Some(released)
    }

    /// Begins to wait until nobody else may ship the rows, and tells the receivers then; at once if
    /// nobody may.
    pub fn release(self, catalog: Catalog, sender: watch::Sender<bool>) {
        tokio::spawn(async move {
            if self != Self::default() {
                self.wait(&catalog).await;
            }
            tracing::info!("nobody else ships what this log has: shipping begins");
            sender.send_replace(true);
        });
    }

    async fn wait(self, catalog: &Catalog) {
        if self.is_taken_over {
            tracing::warn!(
                "another process may still run under this node's name (this folder is a copy of its folder); nothing is \
                 sent to ClickHouse for {} s, in which that process exits",
                NODE_SILENCE_MAX.as_secs()
            );
            tokio::time::sleep(NODE_SILENCE_MAX).await;
        }
        let Some(mut origin) = self.origin else {
            return;
        };
        tracing::warn!(
            origin = origin.name,
            "this folder is a copy of the one of a node that runs: nothing is sent to ClickHouse until that node has \
             shipped what both logs have, or has ended"
        );
        let mut heard = None;
        while holds(catalog, &mut origin, &mut heard).await {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

/// Returns true while the origin may ship rows of this log, or the catalog cannot be asked. It has
/// ended if its sign of life stays the same for [`NODE_SILENCE_MAX`] in which the catalog answers:
/// clocks differ, and while the catalog is down nobody is heard of.
async fn holds(
    catalog: &Catalog,
    origin: &mut OriginalNode,
    heard: &mut Option<(UtcTime, Instant)>,
) -> bool {
    let row = tokio::time::timeout(CHECK_TIMEOUT, Nodes::new(catalog).get(&origin.name)).await;
    let Ok(Ok(row)) = row else {
        *heard = None;
        return true;
    };
    let held = origin.holding(row.as_ref(), SystemClock.now().into());
    let (Some(held), Some(row)) = (held, row) else {
        return false;
    };
    *origin = held;
    match heard {
        Some((at, since)) if *at == row.published_at => since.elapsed() < NODE_SILENCE_MAX,
        _ => {
            *heard = Some((row.published_at, Instant::now()));
            true
        }
    }
}

/// Waits until the backlog is released; at once if nothing holds it.
///
/// # Errors
/// When the task that would release it panicked, so that nobody will.
pub async fn released(hold: Option<watch::Receiver<bool>>) -> Result<(), ShipError> {
    let Some(mut hold) = hold else {
        return Ok(());
    };
    let released = hold.wait_for(|is_released| *is_released).await.map(drop);
    released.map_err(|_| ShipError::Task("nobody releases what the log has".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time that is longer than it takes on a busy machine.
    const SOON: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn a_backlog_that_nobody_releases_any_more_is_an_error() {
        assert!(released(None).await.is_ok());
        for is_released in [true, false] {
            let (sender, hold) = watch::channel(false);
            tokio::spawn(async move {
                assert!(is_released, "a mistake of ours");
                sender.send_replace(true);
            });
            let waited = tokio::time::timeout(SOON, released(Some(hold))).await;
            let waited = waited.expect("it waits for ever");
            assert_eq!(waited.is_ok(), is_released, "{waited:?}");
        }
    }
}
