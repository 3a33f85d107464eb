//! Pace at which a client takes its answer.
//!
//! The engine looks at the time of a statement between two blocks that it can write. So a client
//! that reads next to nothing would hold a statement, of which a user has few, for as long as it
//! likes.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Time in which a client has to take so many bytes of an answer that waits.
pub(super) const WINDOW: Duration = Duration::from_secs(30);
/// Bytes that a client has to take in that time.
pub(super) const BYTES_MIN: usize = 64 << 10;

/// Pace of one connection, measured while its socket takes no more.
#[derive(Debug, Default)]
pub(super) struct WritePace(Option<Window>);

/// Time since the socket was full.
#[derive(Debug)]
struct Window {
    bytes: usize,
    timer: Pin<Box<Sleep>>,
}

// === impl WritePace ===

impl WritePace {
    /// Counts bytes that the socket took.
    pub(super) const fn wrote(&mut self, bytes: usize) {
        if let Some(window) = &mut self.0 {
            window.bytes = window.bytes.saturating_add(bytes);
        }
    }

    /// Notes that the socket took all that there was.
    pub(super) fn finish(&mut self) {
        self.0 = None;
    }

    /// Waits, while the socket is full, for the end of a window in which it took too little.
    pub(super) fn poll_stalled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let window = self.0.get_or_insert_with(|| Window {
            bytes: 0,
            timer: Box::pin(sleep(WINDOW)),
        });
        loop {
            ready!(window.timer.as_mut().poll(cx));
            if window.bytes < BYTES_MIN {
                return Poll::Ready(());
            }
            window.bytes = 0;
            window.timer.as_mut().reset(Instant::now() + WINDOW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    const STEP: Duration = Duration::from_secs(1);

    fn is_stalled(pace: &mut WritePace) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pace.poll_stalled(&mut context).is_ready()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_has_to_take_64_kib_in_each_30_seconds() {
        for (bytes, expected) in [(0, true), (2_000, true), (2_500, false)] {
            let mut pace = WritePace::default();
            let mut stalled = false;
            for _ in 0..200 {
                stalled |= is_stalled(&mut pace);
                sleep(STEP).await;
                pace.wrote(bytes);
            }
            assert_eq!(stalled, expected, "{bytes} a second");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_without_an_answer_that_waits_does_not_count() {
        let mut pace = WritePace::default();
        for _ in 0..10 {
            assert!(!is_stalled(&mut pace));
            sleep(29 * STEP).await;
            assert!(!is_stalled(&mut pace));
            pace.finish();
        }
    }
}
