//! Wait of a connection for the head of a request, which ends when others need its place.
//!
//! The core of the connection notes when such a wait begins and ends; whoever accepts connections,
//! on any core, may evict one that waits. A connection that is evicted just as its request arrives
//! serves the request, and is closed before the next one.

use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Poll, Waker};
use std::time::Instant;

/// Value of `since` while a request is under way.
const NOT_WAITING: u64 = 0;

/// Wait of one connection.
#[derive(Debug)]
pub struct HeadWait {
    /// Time that the milliseconds of `since` count from.
    origin: Instant,
    /// Begin of the wait, in milliseconds, plus one.
    since: AtomicU64,
    is_evicted: AtomicBool,
    waker: AtomicWaker,
}

// === impl HeadWait ===

impl HeadWait {
    /// Returns the wait of a new connection for its first head. Waits with the same `origin` can be
    /// compared.
    pub fn new(origin: Instant) -> Self {
        let wait = Self {
            origin,
            since: AtomicU64::new(NOT_WAITING),
            is_evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        };
        wait.note_begin();
        wait
    }

    /// Notes that the connection waits, and has it woken when it is evicted. Returns true if it has
    /// been.
    pub fn begin(&self, waker: &Waker) -> bool {
        if self.since.load(Relaxed) == NOT_WAITING {
            self.note_begin();
        }
        self.waker.register(waker);
        // Read after the waker is registered, so that no eviction in between is missed.
        self.is_evicted.load(Acquire)
    }

    /// Waits until the connection is evicted.
    pub async fn evicted(&self) {
        let evicted = poll_fn(|cx| match self.begin(cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        evicted.await;
    }

    /// Notes that bytes came: the connection may have a request now.
    pub fn end(&self) {
        if self.since.load(Relaxed) != NOT_WAITING {
            self.since.store(NOT_WAITING, Relaxed);
        }
    }

    /// Begin of the wait, as a number that is lower for earlier ones; `None` while the connection
    /// does not wait.
    pub fn since(&self) -> Option<u64> {
        Some(self.since.load(Relaxed)).filter(|since| *since != NOT_WAITING)
    }

    /// Has the connection close.
    pub fn evict(&self) {
        self.is_evicted.store(true, Release);
        self.waker.wake();
    }

    /// Sets the begin of the wait.
    #[cfg(test)]
    pub fn set_since(&self, since: u64) {
        self.since.store(since, Relaxed);
    }

    fn note_begin(&self) {
        let elapsed = u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.since.store(elapsed.saturating_add(1), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_from_its_begin_and_between_requests() {
        let wait = HeadWait::new(Instant::now());
        assert!(wait.since().is_some(), "silent from the start");
        wait.end();
        assert_eq!(wait.since(), None);
        assert!(!wait.begin(Waker::noop()));
        let since = wait.since();
        assert!(since.is_some());
        assert!(!wait.begin(Waker::noop()));
        assert_eq!(wait.since(), since, "it is polled again");
    }

    #[test]
    fn an_evicted_connection_learns_of_it_at_its_next_wait() {
        let wait = HeadWait::new(Instant::now());
        wait.end();
        wait.evict();
        assert!(wait.begin(Waker::noop()));
    }
}
