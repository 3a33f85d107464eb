//! Memory budget of bodies and responses, from before a body is read until the last byte of its
//! response is sent.
//!
//! A request reserves the size of its body and of the largest response of its operation, and then
//! keeps what its response needs. A user who has used up their share waits until their own
//! responses are read, and gets 503 after a while; other users are not affected.

use super::per_user::PerUser;
use crate::error::ApiError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Memory of all responses, in KiB.
const ALL_KIB: u32 = 256 << 10;
/// Memory of one user's responses, in KiB.
const SHARE_KIB: u32 = 32 << 10;
/// Divisor of the memory that is left: a user may hold at most one part of it, so that there is
/// always some for users who hold none yet.
const PARTS_OF_REST: usize = 4;
/// Longest wait for memory, and the interval at which waiting requests try again.
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Memory budget of all responses.
#[derive(Debug)]
pub(crate) struct ResponseBudget {
    all: Arc<Semaphore>,
    /// Shares of the users that hold or wait for memory.
    shares: PerUser,
}

/// Memory reserved for one response; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    all: OwnedSemaphorePermit,
    own: OwnedSemaphorePermit,
}

impl Default for ResponseBudget {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_KIB as usize)),
            shares: PerUser::new(SHARE_KIB as usize),
        }
    }
}

impl ResponseBudget {
    /// Reserves memory of a user's share for a body and a response.
    ///
    /// # Errors
    ///
    /// 503 after 10 seconds: the user's responses, or those of all users, are not read.
    pub(crate) async fn reserve(
        &self,
        user_id: i64,
        bytes: usize,
    ) -> Result<ResponseMemory, ApiError> {
        let kib = kib(bytes);
        let share = self.shares.of(user_id);
        let memory = async {
            loop {
                if let Some(memory) = self.try_reserve(&share, kib) {
                    return memory;
                }
                sleep(LOOK_EVERY).await;
            }
        };
        let memory = timeout(WAIT_MAX, memory).await;
        memory.map_err(|_| ApiError::responses_unread())
    }

    /// Reserves memory that is available now.
    fn try_reserve(&self, share: &Arc<Semaphore>, kib: u32) -> Option<ResponseMemory> {
        let held = SHARE_KIB as usize - share.available_permits();
        let left = self.all.available_permits();
        if held + kib as usize > left / PARTS_OF_REST {
            return None;
        }
        let own = Arc::clone(share).try_acquire_many_owned(kib).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(kib).ok()?;
        Some(ResponseMemory { all, own })
    }
}

impl ResponseMemory {
    /// Resizes the reservation to a response of `bytes` bytes: gives the rest back, or takes more.
    /// Returns false if there is no more.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let needed = kib(bytes) as usize;
        [&mut self.all, &mut self.own].into_iter().all(|permit| {
            let had = permit.num_permits();
            if let Some(spare) = had.checked_sub(needed) {
                drop(permit.split(spare));
                return true;
            }
            let missing = u32::try_from(needed - had).unwrap_or(u32::MAX);
            let more = Arc::clone(permit.semaphore()).try_acquire_many_owned(missing);
            more.map(|more| permit.merge(more)).is_ok()
        })
    }
}

fn kib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024))
        .unwrap_or(u32::MAX)
        .min(SHARE_KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: usize = 5 << 20;

    #[tokio::test(start_paused = true)]
    async fn a_user_with_unread_responses_waits_and_others_do_not() {
        let budget = ResponseBudget::default();
        let mut held = Vec::new();
        while let Ok(mut memory) = budget.reserve(1, PAGE_BYTES).await {
            assert!(memory.resize(4_000_000));
            held.push(memory);
        }
        assert!((6..=8).contains(&held.len()), "{}", held.len());
        budget.reserve(2, PAGE_BYTES).await.unwrap();
        for memory in &mut held {
            assert!(memory.resize(1_000));
        }
        budget.reserve(1, PAGE_BYTES).await.unwrap();
        held.clear();
        budget.reserve(3, PAGE_BYTES).await.unwrap();
        assert_eq!(
            budget.shares.len(),
            1,
            "shares that nobody holds are removed"
        );
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn unread_responses_of_many_users_leave_memory_for_a_new_user() {
        let budget = ResponseBudget::default();
        let mut held = Vec::new();
        for user in 1..=8 {
            while let Ok(memory) = budget.reserve(user, PAGE_BYTES).await {
                held.push(memory);
            }
        }
        held.push(budget.reserve(9, PAGE_BYTES).await.unwrap());
        for user in 10..30 {
            while let Ok(memory) = budget.reserve(user, PAGE_BYTES).await {
                held.push(memory);
            }
            held.push(budget.reserve(100 + user, 256 << 10).await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_larger_than_its_reservation_takes_more_memory_or_fails() {
        let budget = ResponseBudget::default();
        let mut first = budget.reserve(1, 1 << 10).await.unwrap();
        assert!(first.resize(20 << 20));
        let mut second = budget.reserve(1, 1 << 10).await.unwrap();
        assert!(!second.resize(20 << 20), "the user has 32 MiB");
        drop(first);
        assert!(second.resize(20 << 20));
        drop(second);
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }
}
