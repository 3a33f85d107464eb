//! Stop of the server, and clients that stall in a request meanwhile.
//!
//! Nobody listens during a stop, so a silent client must not make it longer. A time-out of the
//! socket would cut off requests as well: hyper reads on while one is worked on, to notice that its
//! client has gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longest pause within a body, and time for the rest of a head, once the server stops.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// Stop of the server; it has not begun by default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stopping(CancellationToken);

impl Stopping {
    /// Notes that the server stops.
    pub(crate) fn begin(&self) {
        self.0.cancel();
    }

    /// Waits for the stop.
    pub(crate) async fn begun(&self) {
        self.0.cancelled().await;
    }

    /// Waits for the stop, and then for as long as a client may be silent. To be called anew when
    /// something has come.
    pub(crate) async fn stalled(&self) {
        self.0.cancelled().await;
        tokio::time::sleep(STALL_TIMEOUT).await;
    }

    /// Waits for the stop, and then until a connection without a request has had its time for one.
    /// Later heads need no limit: hyper closes a connection that waits for its next request.
    pub(crate) async fn first_head_stalled(&self, has_request: &AtomicBool) {
        self.stalled().await;
        if has_request.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    /// Longer than anything is waited for.
    const LONG: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn a_client_has_a_second_from_the_stop_and_any_time_before() {
        let stopping = Stopping::default();
        assert!(timeout(LONG, stopping.stalled()).await.is_err());
        stopping.begin();
        for _ in 0..2 {
            let begun = Instant::now();
            stopping.stalled().await;
            assert_eq!(begun.elapsed().as_secs(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_is_limited_on_a_connection_without_a_request_alone() {
        for has_request in [false, true] {
            let stopping = Stopping::default();
            stopping.begin();
            let has_request = AtomicBool::new(has_request);
            let stalled = timeout(LONG, stopping.first_head_stalled(&has_request)).await;
            assert_eq!(stalled.is_err(), has_request.into_inner());
        }
    }
}
