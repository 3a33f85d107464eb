//! Capacity of logs and queues: limits past which requests are refused.

use crate::threads::{AtomicBool, AtomicUsize};
use millrace_rows::Lane;
use std::sync::atomic::Ordering;
use thiserror::Error;

/// Percent of the logs' capacity from which on historical requests are refused: the rest is for
/// live events.
const HISTORICAL_PERCENT_MAX: u64 = 85;
/// Percent of the logs' capacity from which on every request is refused: the rest is for groups
/// that were already admitted.
const LIVE_PERCENT_MAX: u64 = 95;

/// Reason for refusing a request. All but the last mean 503: the client should retry later.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// Too many requests or bytes wait for the disk.
    #[error("too many requests are waiting for the disk")]
    QueueFull,
    /// The log is full: ClickHouse has been unreachable or slow for too long.
    #[error("the log is full because ClickHouse is behind")]
    LogFull,
    /// The disk is full of other files; the log is within its own limit.
    #[error("the disk of the log is full")]
    DiskFull,
    /// The log's last capacity is kept for live events.
    #[error("the log is nearly full, so historical events have to wait")]
    ImportLoadShed,
    /// A write or sync failed; the process ends and recovers at its next start.
    #[error("the log could not be written")]
    LogFailed,
    /// The process is about to end.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The rows are in the log, and the shipper ends before they are in ClickHouse.
    #[error("the server is shutting down, and ships them after its next start")]
    NotShipped,
    /// The rows of one table and month are more than one insert may hold: 413, as they always will
    /// be.
    #[error("the events of the request are larger than one insert may be")]
    TooLarge,
}

/// Checks that the logs have capacity for one more request of the lane.
///
/// `bytes_used` and `bytes_max` are those of both lanes' logs together.
pub fn check_log_capacity(lane: Lane, bytes_used: u64, bytes_max: u64) -> Result<(), Refusal> {
    let percent = bytes_used.saturating_mul(100) / bytes_max.max(1);
    if percent >= LIVE_PERCENT_MAX {
        return Err(Refusal::LogFull);
    }
    match lane {
        Lane::Historical if percent >= HISTORICAL_PERCENT_MAX => Err(Refusal::ImportLoadShed),
        Lane::Historical | Lane::Live => Ok(()),
    }
}

/// Bounds of a lane's queue: requests and bytes between reservation and answer.
#[derive(Debug)]
pub struct QueueCapacity {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    /// The part of `bytes` that the commit thread was handed and has not answered.
    handed_bytes: AtomicUsize,
    requests_max: usize,
    bytes_max: usize,
    closed: AtomicBool,
}

impl QueueCapacity {
    /// An empty queue with its two limits.
    pub fn new(requests_max: usize, bytes_max: usize) -> Self {
        Self {
            requests: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            handed_bytes: AtomicUsize::new(0),
            requests_max,
            bytes_max,
            closed: AtomicBool::new(false),
        }
    }

    /// Reserves capacity for a request, or says why there is none. A single request may be larger
    /// than the byte limit: it is admitted when it is alone, as it never would be otherwise.
    pub fn reserve(&self, bytes: usize) -> Result<(), Refusal> {
        if self.is_closed() {
            return Err(Refusal::ShuttingDown);
        }
        let requests_before = self.requests.fetch_add(1, Ordering::AcqRel);
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = bytes_before == 0 || bytes_before.saturating_add(bytes) <= self.bytes_max;
        if requests_before < self.requests_max && fits {
            return Ok(());
        }
        self.release(bytes);
        Err(Refusal::QueueFull)
    }

    /// Reserves more bytes for a request that is in the queue, under the limit of
    /// [`reserve`](Self::reserve): its rows take more memory than its body did.
    pub fn grow(&self, own_bytes: usize, more: usize) -> Result<(), Refusal> {
        let before = self.bytes.fetch_add(more, Ordering::AcqRel);
        let is_alone = before <= own_bytes;
        if is_alone || before.saturating_add(more) <= self.bytes_max {
            return Ok(());
        }
        self.bytes.fetch_sub(more, Ordering::AcqRel);
        Err(Refusal::QueueFull)
    }

    /// Checks that there is capacity for a small request; none is reserved.
    pub fn check_open(&self) -> Result<(), Refusal> {
        if self.is_closed() {
            return Err(Refusal::ShuttingDown);
        }
        if self.requests() >= self.requests_max || self.bytes() >= self.bytes_max {
            return Err(Refusal::QueueFull);
        }
        Ok(())
    }

    /// Gives reserved capacity back.
    pub fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.requests.fetch_sub(1, Ordering::AcqRel);
    }

    /// Refuses every request from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns true once the queue refuses every request.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Bytes of requests between reservation and answer.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Counts bytes as handed to the commit thread, until they are [taken back](Self::take_back).
    pub fn hand_over(&self, bytes: usize) {
        self.handed_bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Counts bytes that the commit thread is done with.
    pub fn take_back(&self, bytes: usize) {
        self.handed_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Bytes of requests that the commit thread has.
    pub fn handed_bytes(&self) -> usize {
        self.handed_bytes.load(Ordering::Acquire)
    }

    /// Requests between reservation and answer.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn historical_requests_are_shed_before_live_ones() {
        let table = [
            (Lane::Live, 84, Ok(())),
            (Lane::Historical, 84, Ok(())),
            (Lane::Live, 85, Ok(())),
            (Lane::Historical, 85, Err(Refusal::ImportLoadShed)),
            (Lane::Live, 94, Ok(())),
            (Lane::Live, 95, Err(Refusal::LogFull)),
            (Lane::Historical, 95, Err(Refusal::LogFull)),
            (Lane::Live, 400, Err(Refusal::LogFull)),
        ];
        for (lane, used, expected) in table {
            assert_eq!(
                check_log_capacity(lane, used, 100),
                expected,
                "{lane:?} at {used} %"
            );
        }
    }

    /// Runs a test in one schedule: the counters are shuttle's in this crate's tests.
    fn in_one_schedule(test: impl Fn() + Send + Sync + 'static) {
        shuttle::check_random(test, 1);
    }

    #[test]
    fn a_queue_is_bounded_in_requests_and_in_bytes() {
        in_one_schedule(|| {
            let queue = QueueCapacity::new(2, 100);
            assert_eq!(queue.reserve(60), Ok(()));
            assert_eq!(queue.reserve(60), Err(Refusal::QueueFull), "bytes");
            assert_eq!(queue.reserve(40), Ok(()));
            assert_eq!(queue.reserve(0), Err(Refusal::QueueFull), "requests");
            assert_eq!(queue.check_open(), Err(Refusal::QueueFull));
            queue.release(60);
            assert_eq!(queue.check_open(), Ok(()));
            assert_eq!(queue.reserve(60), Ok(()));
        });
    }

    #[test]
    fn a_request_larger_than_the_queue_is_admitted_when_it_is_alone() {
        in_one_schedule(|| {
            let queue = QueueCapacity::new(2, 100);
            assert_eq!(queue.reserve(500), Ok(()));
            assert_eq!(queue.reserve(1), Err(Refusal::QueueFull));
            queue.release(500);
            assert_eq!(queue.reserve(1), Ok(()));
        });
    }

    #[test]
    fn rows_that_outgrow_their_body_are_bounded_as_bodies_are() {
        in_one_schedule(|| {
            let queue = QueueCapacity::new(3, 100);
            assert_eq!(queue.reserve(10), Ok(()));
            assert_eq!(queue.grow(10, 500), Ok(()), "alone");
            assert_eq!(queue.reserve(1), Err(Refusal::QueueFull));
            queue.release(510);
            assert_eq!(queue.reserve(10), Ok(()));
            assert_eq!(queue.reserve(10), Ok(()));
            assert_eq!(queue.grow(10, 81), Err(Refusal::QueueFull));
            assert_eq!(queue.grow(10, 80), Ok(()));
            assert_eq!(queue.bytes(), 100);
        });
    }

    #[test]
    fn a_closed_queue_refuses_every_request() {
        in_one_schedule(|| {
            let queue = QueueCapacity::new(2, 100);
            queue.close();
            assert_eq!(queue.reserve(1), Err(Refusal::ShuttingDown));
            assert_eq!(queue.check_open(), Err(Refusal::ShuttingDown));
        });
    }
}
