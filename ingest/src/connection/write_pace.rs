//! Pace at which a peer reads what is written to it.
//!
//! The phases of a connection do not bound it: a client may send its next request, slowly, while it
//! reads nothing of the last response, and would hold that for as long as its bodies may take.

use crate::config::HttpLimits;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Pace of one connection, measured only while its socket takes no more.
#[derive(Debug)]
pub struct WritePace {
    timeout: Duration,
    /// Bytes that the socket has to take within the timeout.
    bytes_min: usize,
    window: Option<Window>,
}

/// Window of time in which the socket was full at least once.
#[derive(Debug)]
struct Window {
    bytes: usize,
    timer: Pin<Box<Sleep>>,
}

// === impl WritePace ===

impl WritePace {
    /// Returns the pace of a new connection.
    pub fn new(limits: &HttpLimits) -> Self {
        let timeout = limits.write_timeout;
        let seconds = usize::try_from(timeout.as_secs()).unwrap_or(usize::MAX);
        let bytes_min = limits.body_bytes_per_second_min.saturating_mul(seconds);
        Self {
            timeout,
            bytes_min: bytes_min.max(1),
            window: None,
        }
    }

    /// Counts bytes that the socket took.
    pub const fn wrote(&mut self, bytes: usize) {
        if let Some(window) = &mut self.window {
            window.bytes = window.bytes.saturating_add(bytes);
        }
    }

    /// Returns true if the socket was full and has not taken the rest since.
    pub const fn is_waiting(&self) -> bool {
        self.window.is_some()
    }

    /// Notes that the socket took all that there was. Returns true if it was full before.
    pub fn finish(&mut self) -> bool {
        self.window.take().is_some()
    }

    /// Waits, while the socket is full, for the end of a window in which it took too little.
    pub fn poll_stall(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeout = self.timeout;
        let window = self.window.get_or_insert_with(|| Window {
            bytes: 0,
            timer: Box::pin(tokio::time::sleep(timeout)),
        });
        while window.timer.as_mut().poll(cx).is_ready() {
            if window.bytes < self.bytes_min {
                return Poll::Ready(());
            }
            window.bytes = 0;
            window.timer.as_mut().reset(Instant::now() + timeout);
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::future::poll_fn;

    const STEP: Duration = Duration::from_secs(1);

    /// Seconds after which a peer is given up that takes so many bytes each second.
    async fn given_up_after(bytes_per_second: usize) -> Option<u64> {
        let mut pace = WritePace::new(&HttpLimits::default());
        for seconds in 0..100 {
            if poll_fn(|cx| pace.poll_stall(cx)).now_or_never().is_some() {
                return Some(seconds);
            }
            tokio::time::sleep(STEP).await;
            pace.wrote(bytes_per_second);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_to_take_512_bytes_a_second_in_each_20_seconds() {
        for (bytes_per_second, expected) in [(0, true), (400, true), (600, false)] {
            let after = given_up_after(bytes_per_second).await;
            assert_eq!(after.is_some(), expected, "{bytes_per_second}: {after:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_ends_with_what_there_is_to_write() {
        let mut pace = WritePace::new(&HttpLimits::default());
        for _ in 0..10 {
            let stalled = poll_fn(|cx| pace.poll_stall(cx)).now_or_never();
            assert_eq!(stalled, None);
            assert!(pace.is_waiting());
            tokio::time::sleep(19 * STEP).await;
            assert!(pace.finish());
            assert!(!pace.is_waiting() && !pace.finish());
        }
    }
}
