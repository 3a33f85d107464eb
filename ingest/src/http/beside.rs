//! Long work beside the cores, so that what shares a core with it does not wait.
//!
//! A core is one thread, on which a body of 100 MiB would keep everybody else for a tenth of a second
//! and more. Such work gets a thread of its own, at most as many as there are cores, and of those at
//! most half for bodies whose project is not known. What a parser takes beside the body is counted
//! apart from bodies, so that large ones do not take the room of small ones.

use super::Call;
use super::body::overloaded;
use crate::config::HttpLimits;
use crate::core::Core;
use millrace_parse::ApiError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Bytes as sent above which a compressed body decodes to more than [`ON_CORE_BYTES_MAX`](millrace_encoding::ON_CORE_BYTES_MAX)
/// anyway.
pub const ON_CORE_SENT_BYTES_MAX: usize = 512 << 10;
/// How long a request waits for a thread and for memory, all in all: less than clients wait for an answer.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// Bytes that one permit for memory stands for.
const MEMORY_UNIT_BYTES: usize = 1 << 20;

/// What all long work has together.
#[derive(Debug)]
pub struct Threads {
    all: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
    memory: Arc<Semaphore>,
    memory_bytes_max: usize,
}

impl Threads {
    /// As many as there are cores, with half as much memory as bodies have.
    pub fn of(workers: usize, limits: &HttpLimits) -> Self {
        let memory_bytes_max = limits.in_flight_bytes_max / 2;
        Self {
            all: Arc::new(Semaphore::new(workers.max(1))),
            strangers: Arc::new(Semaphore::new((workers / 2).max(1))),
            memory: Arc::new(Semaphore::new(memory_bytes_max / MEMORY_UNIT_BYTES)),
            memory_bytes_max,
        }
    }
}

/// One request's thread beside the cores, from the first long step to the last.
#[derive(Debug)]
pub struct Beside {
    deadline: Instant,
    threads: Arc<Threads>,
    /// As long as its project is not known.
    stranger: Option<OwnedSemaphorePermit>,
    _thread: OwnedSemaphorePermit,
}

impl Beside {
    /// Waits for a thread. Meanwhile the watermark passes: there are no rows yet.
    ///
    /// # Errors
    ///
    /// 503 if it takes too long.
    pub async fn enter(call: &Call<'_>, is_key_known: bool) -> Result<Self, ApiError> {
        call.step_aside();
        let threads = Arc::clone(&call.core.shared.threads_beside);
        let entered = Self::among(threads, is_key_known).await;
        entered.ok_or_else(|| overloaded(call.core))
    }

    /// A thread of these; `None` if it takes too long.
    async fn among(threads: Arc<Threads>, is_key_known: bool) -> Option<Self> {
        let deadline = Instant::now() + WAIT_MAX;
        let mut stranger = None;
        if !is_key_known {
            let permit = Arc::clone(&threads.strangers).acquire_owned();
            stranger = Some(soon(deadline, permit).await?);
        }
        let permit = Arc::clone(&threads.all).acquire_owned();
        let thread = soon(deadline, permit).await?;
        Some(Self {
            deadline,
            threads,
            stranger,
            _thread: thread,
        })
    }

    /// Gives back what strangers share, as the body turned out to be a known project's.
    pub fn is_of_known_project(&mut self) {
        self.stranger = None;
    }

    /// Does a step of the work. The thread goes with it, also when nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// 503 if it came to no end.
    pub async fn run<T: Send + 'static>(
        self,
        core: &Core,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(Self, T), ApiError> {
        let done = tokio::task::spawn_blocking(move || (self, work()));
        done.await.map_err(|_| overloaded(core))
    }

    /// Waits for so many bytes of memory; nothing if there never are as many.
    ///
    /// # Errors
    ///
    /// 503 if it takes too long.
    pub async fn memory(
        &self,
        core: &Core,
        bytes: usize,
    ) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let units = u32::try_from(bytes.div_ceil(MEMORY_UNIT_BYTES));
        let Some(units) = units
            .ok()
            .filter(|_| bytes <= self.threads.memory_bytes_max)
        else {
            return Ok(None);
        };
        let memory = Arc::clone(&self.threads.memory);
        let permit = memory.acquire_many_owned(units);
        let permit = soon(self.deadline, permit).await;
        permit.map(Some).ok_or_else(|| overloaded(core))
    }
}

/// `None` if it takes too long.
async fn soon<T, E>(deadline: Instant, permit: impl Future<Output = Result<T, E>>) -> Option<T> {
    timeout_at(deadline, permit).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn strangers_have_half_of_the_threads_and_who_waits_for_eight_seconds_is_told_so() {
        let threads = Arc::new(Threads::of(4, &HttpLimits::default()));
        let began = Instant::now();
        let enter = |is_key_known| Beside::among(Arc::clone(&threads), is_key_known);
        let strangers = [enter(false).await.unwrap(), enter(false).await.unwrap()];
        assert!(enter(false).await.is_none(), "a third stranger");
        assert_eq!(began.elapsed(), Duration::from_secs(8));
        // Whoever is known did not wait for them.
        let known = [enter(true).await.unwrap(), enter(true).await.unwrap()];
        assert_eq!(began.elapsed(), Duration::from_secs(8));
        assert!(enter(true).await.is_none(), "more than there are threads");
        assert_eq!(began.elapsed(), Duration::from_secs(16));
        // One who waits gets the first place that comes free.
        let waits = tokio::spawn(Beside::among(Arc::clone(&threads), false));
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(strangers);
        assert!(waits.await.unwrap().is_some());
        assert_eq!(began.elapsed(), Duration::from_secs(23));
        drop(known);
    }

    #[test]
    fn who_turns_out_to_be_known_leaves_the_threads_of_strangers_to_them() {
        let threads = Arc::new(Threads::of(2, &HttpLimits::default()));
        let (strangers, all) = (Arc::clone(&threads.strangers), Arc::clone(&threads.all));
        let mut beside = Beside {
            deadline: Instant::now(),
            stranger: Some(Arc::clone(&strangers).try_acquire_owned().unwrap()),
            _thread: Arc::clone(&all).try_acquire_owned().unwrap(),
            threads,
        };
        let free = || (strangers.available_permits(), all.available_permits());
        assert_eq!(free(), (0, 1));
        beside.is_of_known_project();
        assert_eq!(free(), (1, 1), "it still has its thread");
        drop(beside);
        assert_eq!(free(), (1, 2));
    }
}
