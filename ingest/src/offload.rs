//! Offload pool: threads for long work, so that other requests on a core do not wait for it.
//!
//! A core is one thread, on which a body of 100 MiB would keep all other requests waiting for a
//! tenth of a second and more, as would a dozen of a megabyte each. Such work gets a thread of its
//! own, at most as many as there are cores, and of those at most half for bodies whose project is
//! not known. Memory that a parser takes beside the body, and a decoder before the size of its
//! output is known, is counted apart from bodies, so that large ones do not take that of small
//! ones.

use crate::config::HttpLimits;
use std::sync::Arc;
use std::time::Duration;
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
    all: Arc<Semaphore>,
    unknown_keys: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    memory_bytes_max: usize,
}

impl OffloadPool {
    /// Returns a pool of as many threads as there are cores, with half as much memory as bodies
    /// have.
    pub fn new(workers: usize, limits: &HttpLimits) -> Self {
        let memory_bytes_max = limits.in_flight_bytes_max / 2;
        Self {
            all: Arc::new(Semaphore::new(workers.max(1))),
            unknown_keys: Arc::new(Semaphore::new((workers / 2).max(1))),
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
    /// Permit of a request with an unknown key, while its project is not known.
    unknown_key: Option<OwnedSemaphorePermit>,
    _thread: OwnedSemaphorePermit,
}

impl OffloadSlot {
    /// Waits for a thread of the pool.
    ///
    /// # Errors
    ///
    /// [`OffloadFailed`] if it takes too long.
    pub async fn acquire(
        pool: Arc<OffloadPool>,
        is_key_known: bool,
    ) -> Result<Self, OffloadFailed> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut unknown_key = None;
        if !is_key_known {
            let permit = Arc::clone(&pool.unknown_keys).acquire_owned();
            unknown_key = Some(before_deadline(deadline, permit).await?);
        }
        let permit = Arc::clone(&pool.all).acquire_owned();
        let thread = before_deadline(deadline, permit).await?;
        Ok(Self {
            deadline,
            pool,
            unknown_key,
            _thread: thread,
        })
    }

    /// Gives back the permit for unknown keys, as the body turned out to be a known project's.
    pub fn mark_project_known(&mut self) {
        self.unknown_key = None;
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
        let units = u32::try_from(bytes.div_ceil(MEMORY_UNIT_BYTES));
        let Some(units) = units.ok().filter(|_| bytes <= self.pool.memory_bytes_max) else {
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
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn unknown_keys_have_half_of_the_threads_and_a_wait_ends_after_eight_seconds() {
        let pool = Arc::new(OffloadPool::new(4, &HttpLimits::default()));
        let began = Instant::now();
        let acquire = |is_key_known| OffloadSlot::acquire(Arc::clone(&pool), is_key_known);
        let unknown_keys = [acquire(false).await.unwrap(), acquire(false).await.unwrap()];
        assert!(acquire(false).await.is_err(), "a third unknown key");
        assert_eq!(began.elapsed(), Duration::from_secs(8));
        // Known keys did not wait for them.
        let known = [acquire(true).await.unwrap(), acquire(true).await.unwrap()];
        assert_eq!(began.elapsed(), Duration::from_secs(8));
        assert!(acquire(true).await.is_err(), "more than there are threads");
        assert_eq!(began.elapsed(), Duration::from_secs(16));
        // A waiting request gets the first thread that comes free.
        let waits = tokio::spawn(OffloadSlot::acquire(Arc::clone(&pool), false));
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(unknown_keys);
        assert!(waits.await.unwrap().is_ok());
        assert_eq!(began.elapsed(), Duration::from_secs(23));
        drop(known);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_of_unknown_sizes_wait_for_memory_and_none_for_more_than_there_is() {
        let limits = HttpLimits {
            in_flight_bytes_max: 8 << 20,
            ..HttpLimits::default()
        };
        let pool = Arc::new(OffloadPool::new(4, &limits));
        let slot = || OffloadSlot::acquire(Arc::clone(&pool), true);
        let (first, second) = (slot().await.unwrap(), slot().await.unwrap());
        let all = first.reserve_memory_at_most(100 << 20).await.unwrap();
        assert_eq!(pool.memory.available_permits(), 0);
        let waits = tokio::spawn(async move { second.reserve_memory_at_most(3 << 20).await });
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(!waits.is_finished());
        drop(all);
        let some = waits.await.unwrap().unwrap();
        assert_eq!(pool.memory.available_permits(), 1);
        drop(some);
        assert_eq!(pool.memory.available_permits(), 4);
    }

    #[test]
    fn a_key_that_turns_out_to_be_known_gives_back_its_permit_for_unknown_keys() {
        let pool = Arc::new(OffloadPool::new(2, &HttpLimits::default()));
        let (unknown_keys, all) = (Arc::clone(&pool.unknown_keys), Arc::clone(&pool.all));
        let mut offload = OffloadSlot {
            deadline: Instant::now(),
            unknown_key: Some(Arc::clone(&unknown_keys).try_acquire_owned().unwrap()),
            _thread: Arc::clone(&all).try_acquire_owned().unwrap(),
            pool,
        };
        let free = || (unknown_keys.available_permits(), all.available_permits());
        assert_eq!(free(), (0, 1));
        offload.mark_project_known();
        assert_eq!(free(), (1, 1), "it still has its thread");
        drop(offload);
        assert_eq!(free(), (1, 2));
    }
}
