//! Threads of the offload pool, and the requests that wait for one.
//!
//! As on a core, flows take turns by bytes ([`scheduling`](crate::scheduling)): a flow's single
//! request waits for about its own size in bytes of each other flow, however many requests those
//! have waiting. Live requests go before historical ones, which get a fifth while both wait, or
//! each second turn where theirs are the smaller ones, so that no project's events keep another's
//! import out.
//!
//! All cores share this queue, so it has a lock, which is held for microseconds. No request queues
//! up while there is a thread that it may have.

use crate::scheduling::deficit_round_robin::{DeficitRoundRobin, Queued};
use crate::scheduling::flow::Flow;
use millrace_rows::Lane;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Bytes that every request counts for at least: it takes a thread, and wakes one.
const REQUEST_BYTES_MIN: usize = 64 << 10;
/// Bytes of live requests that go before the next historical one, for each byte of the last.
const LIVE_RATIO: usize = 4;

/// Work that a request has for a thread.
#[derive(Clone, Copy, Debug)]
pub struct OffloadWork {
    /// Lane of the request, as far as its head names it.
    pub lane: Lane,
    /// Flow of the request; unknown if it names no project that is known.
    pub flow: Flow,
    /// Bytes that the thread has to do with, at most.
    pub bytes: usize,
}

/// Threads of the offload pool.
#[derive(Debug)]
pub(super) struct Threads(Mutex<ThreadQueue>);

/// Thread of one request; it is given back when dropped.
#[derive(Debug)]
pub(super) struct ThreadPermit {
    threads: Arc<Threads>,
    /// True while it is one of those for projects that are not known.
    is_unknown: bool,
    /// Position of the request among those that came.
    pub(super) number: u64,
}

/// Number of threads without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeThreads {
    pub all: usize,
    /// Threads that may be given to requests whose project is not known, if so many are free.
    pub unknown: usize,
}

#[derive(Debug)]
struct ThreadQueue {
    free: FreeThreads,
    live: DeficitRoundRobin<QueuedWork>,
    historical: DeficitRoundRobin<QueuedWork>,
    /// Bytes of live requests that go before the next historical one; 0: a historical one is next.
    live_first_bytes: usize,
    /// Number of the last request that came.
    last_number: u64,
}

/// Request that waits for a thread.
#[derive(Debug)]
struct QueuedWork {
    number: u64,
    work: OffloadWork,
    grant: oneshot::Sender<ThreadPermit>,
}

/// Place of a request in the queue, which it leaves when dropped.
#[derive(Debug)]
pub(super) struct QueuePlace {
    threads: Arc<Threads>,
    number: u64,
    work: OffloadWork,
    pub(super) granted: oneshot::Receiver<ThreadPermit>,
}

// === impl Threads ===

impl Threads {
    /// Returns so many threads, half of them for projects that are not known, too.
    pub(super) fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(ThreadQueue {
            free: FreeThreads {
                all: threads.max(1),
                unknown: (threads / 2).max(1),
            },
            live: DeficitRoundRobin::default(),
            historical: DeficitRoundRobin::default(),
            live_first_bytes: 1,
            last_number: 0,
        })))
    }

    /// Takes a thread. A request that had one before has a `number`, and waits before those of its
    /// flow that came later.
    ///
    /// # Errors
    /// Place in the queue, if there is no thread that the request may have.
    pub(super) fn take_or_queue(
        self: &Arc<Self>,
        work: OffloadWork,
        number: Option<u64>,
    ) -> Result<ThreadPermit, QueuePlace> {
        let mut queue = self.lock();
        let number = number.unwrap_or_else(|| {
            queue.last_number += 1;
            queue.last_number
        });
        // Nobody is overtaken: who waits may have none of these threads.
        if queue.free.has_any_for(work.flow) {
            queue.free.take(work.flow);
            return Ok(self.permit(work.flow, number));
        }
        let (grant, granted) = oneshot::channel();
        let queued = QueuedWork {
            number,
            work,
            grant,
        };
        let lane = queue.lane(work.lane);
        lane.insert(work.lane, work.flow, queued, |other| other.number < number);
        Err(QueuePlace {
            threads: Arc::clone(self),
            number,
            work,
            granted,
        })
    }

    /// Returns true if requests of another flow wait.
    pub(super) fn have_others_waiting(&self, work: OffloadWork) -> bool {
        let queue = self.lock();
        let mut lanes = [&queue.live, &queue.historical].into_iter();
        lanes.any(|lane| lane.has_others(work.lane, work.flow))
    }

    /// Threads without work, and the number of requests that wait.
    #[cfg(test)]
    pub(super) fn state(&self) -> (FreeThreads, usize) {
        let queue = self.lock();
        (queue.free, queue.live.len() + queue.historical.len())
    }

    /// Gives back a thread, or its place among those for projects that are not known. As no request
    /// waits for what is free already, one at most can be served now.
    fn give_back(self: &Arc<Self>, free: FreeThreads) {
        let mut queue = self.lock();
        queue.free.all += free.all;
        queue.free.unknown += free.unknown;
        let next = queue.take_next();
        drop(queue);
        if let Some(next) = next {
            // A client that went away since has its permit dropped, which serves the next one.
            drop(next.grant.send(self.permit(next.work.flow, next.number)));
        }
    }

    fn permit(self: &Arc<Self>, flow: Flow, number: u64) -> ThreadPermit {
        ThreadPermit {
            threads: Arc::clone(self),
            is_unknown: !flow.is_known(),
            number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ThreadQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ThreadQueue ===

impl ThreadQueue {
    fn lane(&mut self, lane: Lane) -> &mut DeficitRoundRobin<QueuedWork> {
        match lane {
            Lane::Live => &mut self.live,
            Lane::Historical => &mut self.historical,
        }
    }

    /// Takes out the next request that there is a thread for, and takes the thread.
    fn take_next(&mut self) -> Option<QueuedWork> {
        let free = self.free;
        if free.all == 0 {
            return None;
        }
        let may_start = |_: Lane, flow: Flow| free.has_any_for(flow);
        let lanes = match self.live_first_bytes {
            0 => [Lane::Historical, Lane::Live],
            _ => [Lane::Live, Lane::Historical],
        };
        let mut lanes = lanes.into_iter();
        let next = lanes.find_map(|lane| self.lane(lane).next(&may_start))?;
        self.live_first_bytes = match next.work.lane {
            Lane::Live => self.live_first_bytes.saturating_sub(next.turn_bytes()),
            // The next live request that comes goes first.
            Lane::Historical if self.live.is_empty() => 1,
            Lane::Historical => next.turn_bytes().saturating_mul(LIVE_RATIO),
        };
        self.free.take(next.work.flow);
        Some(next)
    }
}

// === impl FreeThreads ===

impl FreeThreads {
    fn has_any_for(self, flow: Flow) -> bool {
        self.all > 0 && (flow.is_known() || self.unknown > 0)
    }

    fn take(&mut self, flow: Flow) {
        self.all -= 1;
        self.unknown -= usize::from(!flow.is_known());
    }
}

// === impl QueuedWork ===

impl Queued for QueuedWork {
    fn turn_bytes(&self) -> usize {
        self.work.bytes.max(REQUEST_BYTES_MIN)
    }
}

// === impl ThreadPermit ===

impl ThreadPermit {
    /// Leaves the threads for projects that are not known to others.
    pub(super) fn mark_project_known(&mut self) {
        if std::mem::take(&mut self.is_unknown) {
            self.threads.give_back(FreeThreads { all: 0, unknown: 1 });
        }
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.threads.give_back(FreeThreads {
            all: 1,
            unknown: usize::from(self.is_unknown),
        });
    }
}

// === impl QueuePlace ===

impl QueuePlace {
    /// Waits for a thread; `None` if there is none before the deadline.
    pub(super) async fn wait(mut self, deadline: Instant) -> Option<ThreadPermit> {
        timeout_at(deadline, &mut self.granted).await.ok()?.ok()
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let (number, work) = (self.number, self.work);
        let mut queue = self.threads.lock();
        let lane = queue.lane(work.lane);
        // It is not there if it was granted a thread, which is given back with the receiver.
        let removed = lane.remove(work.lane, work.flow, |other| other.number.cmp(&number));
        // A sender wakes its receiver as it is dropped, which is not done under the lock.
        drop(queue);
        drop(removed);
    }
}
