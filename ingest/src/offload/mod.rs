//! Offload pool: threads for long work, so that other requests on a core do not wait for it.
//!
//! A core is one thread, on which a body of 100 MiB would keep all other requests waiting for a
//! tenth of a second and more, as would a dozen of a megabyte each. Such work gets a thread of its
//! own, at most as many as there are cores, and of those at most half for bodies whose project is
//! not known. Projects take turns for them ([`threads`]). Memory that a parser takes beside the
//! body, and a decoder before the size of its output is known, is counted apart from bodies, so
//! that large ones do not take that of small ones.

mod threads;

pub use threads::OffloadWork;

use crate::config::HttpLimits;
use std::sync::Arc;
use std::time::Duration;
use threads::{ThreadPermit, Threads};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Time that a request waits for a thread and for memory together: less than clients wait for a
/// response.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// Bytes that one permit for memory stands for.
const MEMORY_UNIT_BYTES: usize = 1 << 20;

/// Error of long work that got no thread or memory in time, or panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffloadFailed;

/// Threads and memory of all long work.
#[derive(Debug)]
pub struct OffloadPool {
    threads: Arc<Threads>,
    memory: Arc<Semaphore>,
    memory_bytes_max: usize,
}

impl OffloadPool {
    /// Returns a pool of as many threads as there are cores, with half as much memory as bodies
    /// have.
    pub fn new(workers: usize, limits: &HttpLimits) -> Self {
        let memory_bytes_max = limits.in_flight_bytes_max / 2;
        Self {
            threads: Threads::new(workers),
            memory: Arc::new(Semaphore::new(memory_bytes_max / MEMORY_UNIT_BYTES)),
            memory_bytes_max,
        }
    }
}

/// Thread of one request in the pool, from the first long step to the last.
#[derive(Debug)]
pub struct OffloadSlot {
    deadline: Instant,
    pool: Arc<OffloadPool>,
    thread: ThreadPermit,
    /// Bytes that its turn was for.
    bytes: usize,
}

impl OffloadSlot {
    /// Waits for a thread of the pool.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if it takes too long.
    pub async fn acquire(pool: Arc<OffloadPool>, work: OffloadWork) -> Result<Self, OffloadFailed> {
        let deadline = Instant::now() + WAIT_MAX;
        let thread = match pool.threads.take_or_queue(work, None) {
            Ok(thread) => thread,
            Err(place) => place.wait(deadline).await.ok_or(OffloadFailed)?,
        };
        Ok(Self {
            deadline,
            thread,
            bytes: work.bytes,
            pool,
        })
    }

    /// Waits for another turn if the work is of more bytes than the request waited for so far and
    /// other projects wait, so that no project gets more by bodies that turn out larger than they
    /// say. It goes before requests of its project that came later: once they wait for long, each
    /// would otherwise give up after its first try, with nothing done.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if it takes too long.
    pub async fn grow_to(mut self, work: OffloadWork) -> Result<Self, OffloadFailed> {
        if work.bytes <= self.bytes {
            return Ok(self);
        }
        self.bytes = work.bytes;
        let threads = &self.pool.threads;
        if !threads.have_others_waiting(work) {
            return Ok(self);
        }
        // It queues up first, as its thread may be given to a later one of its project.
        let thread = match threads.take_or_queue(work, Some(self.thread.number)) {
            Ok(thread) => thread,
            Err(place) => {
                drop(self.thread);
                place.wait(self.deadline).await.ok_or(OffloadFailed)?
            }
        };
        Ok(Self { thread, ..self })
    }

    /// Counts no longer among projects that are not known, as the body turned out to be a known
    /// one's.
    pub fn mark_project_known(&mut self) {
        self.thread.mark_project_known();
    }

    /// Does a step of the work. The thread goes with it, even if the request is cancelled.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if the work panicked.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Self, T), OffloadFailed> {
        let done = tokio::task::spawn_blocking(move || (self, work()));
        done.await.map_err(|_| OffloadFailed)
    }

    /// Waits for so many bytes of memory; `None` if there never are as many.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if it takes too long.
    pub async fn reserve_memory(
        &self,
        bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, OffloadFailed> {
        let units_max = self.pool.memory_bytes_max / MEMORY_UNIT_BYTES;
        let units = bytes.div_ceil(MEMORY_UNIT_BYTES);
        let Some(units) = u32::try_from(units).ok().filter(|_| units <= units_max) else {
            return Ok(None);
        };
        let memory = Arc::clone(&self.pool.memory);
        let permit = memory.acquire_many_owned(units);
        before_deadline(self.deadline, permit).await.map(Some)
    }

    /// Waits for so many bytes of memory, or for all that there are.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if it takes too long.
    pub async fn reserve_memory_at_most(
        &self,
        bytes: usize,
    ) -> Result<OwnedSemaphorePermit, OffloadFailed> {
        let units_max = self.pool.memory_bytes_max / MEMORY_UNIT_BYTES;
        let units = bytes.div_ceil(MEMORY_UNIT_BYTES).min(units_max);
        let memory = Arc::clone(&self.pool.memory);
        let permit = memory.acquire_many_owned(u32::try_from(units).unwrap_or(u32::MAX));
        before_deadline(self.deadline, permit).await
    }
}

/// Awaits a permit, but not past the deadline.
async fn before_deadline<T, E>(
    deadline: Instant,
    permit: impl Future<Output = Result<T, E>>,
) -> Result<T, OffloadFailed> {
    match timeout_at(deadline, permit).await {
        Ok(permit) => permit.map_err(|_| OffloadFailed),
        Err(_) => Err(OffloadFailed),
    }
}

#[cfg(test)]
mod tests;
