//! Minimum pace of destinations: one that takes rows too slowly loses its run's slot.
//!
//! Only the time that the destination takes counts, not that of the query. What it does with the
//! rows once it has them (end of a part, publishing) has time limits of its own.

use crate::destination::Delivery;
use crate::error::ExportError;
use bytes::Bytes;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Slowest pace at which a destination may take rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumPace {
    /// Time of the destination over which the pace is measured, again and again.
    pub window: Duration,
    /// Bytes of rows, as they are read, that it must take per second of that time on average.
    pub bytes_per_second: u64,
}

/// Compares one delivery with the minimum pace.
#[derive(Debug)]
pub(super) struct PaceGuard {
    pace: MinimumPace,
    /// Time that the destination has taken within the current window.
    waited: Duration,
    /// Bytes that it has taken within the current window.
    bytes: u64,
}

impl PaceGuard {
    pub(super) fn new(pace: MinimumPace) -> Self {
        Self {
            pace,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Hands bytes over.
    ///
    /// # Errors
    /// The destination does not accept the bytes, or is too slow: then the write was cancelled, and
    /// the delivery can only be aborted.
    pub(super) async fn write(
        &mut self,
        delivery: &mut dyn Delivery,
        bytes: Bytes,
    ) -> Result<(), ExportError> {
        let handed_over = bytes.len();
        let began = Instant::now();
        let written = timeout(self.write_time_max(), delivery.write(bytes)).await;
        written.map_err(|_| self.too_slow())??;
        self.waited += began.elapsed();
        self.bytes += u64::try_from(handed_over).unwrap_or(u64::MAX);
        if self.waited < self.pace.window {
            return Ok(());
        }
        if self.bytes < self.needed() {
            return Err(self.too_slow());
        }
        *self = Self::new(self.pace);
        Ok(())
    }

    /// Time limit of the next write: the rest of the window, and another one if the destination has
    /// taken enough in this one.
    fn write_time_max(&self) -> Duration {
        let left = self.pace.window.saturating_sub(self.waited);
        match self.bytes < self.needed() {
            true => left,
            false => left + self.pace.window,
        }
    }

    /// Bytes that the destination must take in a window.
    fn needed(&self) -> u64 {
        let millis = u64::try_from(self.pace.window.as_millis()).unwrap_or(u64::MAX);
        self.pace.bytes_per_second.saturating_mul(millis) / 1_000
    }

    fn too_slow(&self) -> ExportError {
        let (seconds, rate) = (self.pace.window.as_secs(), self.pace.bytes_per_second);
        ExportError::retryable(format!(
            "The destination accepts rows too slowly: less than {rate} bytes a second over \
             {seconds} seconds."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::Delivered;
    use async_trait::async_trait;

    const PACE: MinimumPace = MinimumPace {
        window: Duration::from_secs(100),
        bytes_per_second: 10,
    };

    /// Destination that takes so long for each write.
    struct Slow(Duration);

    #[async_trait]
    impl Delivery for Slow {
        async fn write(&mut self, _: Bytes) -> Result<(), ExportError> {
            tokio::time::sleep(self.0).await;
            Ok(())
        }

        async fn end_part(&mut self, _: u64) -> Result<(), ExportError> {
            Ok(())
        }

        fn bytes(&self) -> u64 {
            0
        }

        async fn publish(self: Box<Self>) -> Result<Delivered, ExportError> {
            Ok(Delivered::default())
        }

        async fn abort(self: Box<Self>) {}
    }

    /// Writes of so many bytes that take so many seconds each, until one fails or there were
    /// enough.
    async fn writes(bytes: usize, seconds: u64) -> usize {
        let (mut guard, mut slow) = (PaceGuard::new(PACE), Slow(Duration::from_secs(seconds)));
        for count in 0..1_000 {
            let block = Bytes::from(vec![0; bytes]);
            if let Err(error) = guard.write(&mut slow, block).await {
                assert_eq!(error.kind, crate::ExportErrorKind::Retryable);
                assert!(error.message.contains("too slowly"), "{error}");
                return count;
            }
        }
        1_000
    }

    #[tokio::test(start_paused = true)]
    async fn a_destination_below_the_pace_fails_after_a_window_of_its_time() {
        let table = [
            // More than ten bytes a second, and less.
            (100, 9, 1_000),
            (80, 9, 11),
            // Fast ones, and those that need no time.
            (1_000_000, 1, 1_000),
            (1, 0, 1_000),
            // One write that never ends; one that is longer than a window, though with enough.
            (1_000_000, 1_000_000, 0),
            (5_000, 150, 0),
        ];
        for (bytes, seconds, expected) in table {
            let written = writes(bytes, seconds).await;
            assert_eq!(written, expected, "{bytes} bytes in {seconds} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_destination_that_stops_taking_rows_gets_a_window_more() {
        let (mut guard, mut slow) = (PaceGuard::new(PACE), Slow(Duration::from_secs(1)));
        for _ in 0..50 {
            let block = Bytes::from(vec![0; 1_000]);
            guard.write(&mut slow, block).await.unwrap();
        }
        slow.0 = Duration::from_secs(1_000);
        let stuck = Instant::now();
        let block = Bytes::from_static(b"x");
        guard.write(&mut slow, block).await.unwrap_err();
        assert_eq!(stuck.elapsed().as_secs(), 150);
    }
}
