//! Memory of bodies and answers: from before a body is read until the last byte of its answer is sent.
//!
//! Whoever asks reserves the body and as much as the operation may answer, and keeps what the answer has. Who has
//! their share waits for their own answers to be read, and is told 503 in the end; others do not notice.

use super::per_user::PerUser;
use crate::error::ApiError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// The most of all answers, in KiB.
const ALL_KIB: u32 = 256 << 10;
/// The most of one user's answers, in KiB.
const SHARE_KIB: u32 = 32 << 10;
/// Whoever has more than one part of so many of what is left takes no more: there is always some for
/// those who have nothing yet.
const PARTS_OF_REST: usize = 4;
/// How long somebody waits for room, and how often they look.
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Room for answers.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    all: Arc<Semaphore>,
    /// Of users that have any answers.
    shares: PerUser,
}

/// Room of one answer; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    all: OwnedSemaphorePermit,
    own: OwnedSemaphorePermit,
}

impl Default for AnswerBudget {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_KIB as usize)),
            shares: PerUser::new(SHARE_KIB as usize),
        }
    }
}

impl AnswerBudget {
    /// Room of a user for so many bytes of a body and an answer.
    ///
    /// # Errors
    ///
    /// 503: the user's answers, or those of all, are not read.
    pub(crate) async fn room(&self, user_id: i64, bytes: usize) -> Result<AnswerRoom, ApiError> {
        let kib = kib(bytes);
        let share = self.shares.of(user_id);
        let room = async {
            loop {
                if let Some(room) = self.taken(&share, kib) {
                    return room;
                }
                sleep(LOOK_EVERY).await;
            }
        };
        let room = timeout(WAIT_MAX, room).await;
        room.map_err(|_| ApiError::answers_unread())
    }

    /// Room that is there now.
    fn taken(&self, share: &Arc<Semaphore>, kib: u32) -> Option<AnswerRoom> {
        let held = SHARE_KIB as usize - share.available_permits();
        let left = self.all.available_permits();
        if held + kib as usize > left / PARTS_OF_REST {
            return None;
        }
        let own = Arc::clone(share).try_acquire_many_owned(kib).ok()?;
        let all = Arc::clone(&self.all).try_acquire_many_owned(kib).ok()?;
        Some(AnswerRoom { all, own })
    }
}

impl AnswerRoom {
    /// Keeps what an answer of so many bytes needs, and gives back the rest. One that is larger than
    /// was reserved takes more; `false`: there is none.
    pub(crate) fn keep(&mut self, bytes: usize) -> bool {
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
    async fn a_user_who_does_not_read_waits_for_themselves_and_keeps_nobody_waiting() {
        let budget = AnswerBudget::default();
        let mut held = Vec::new();
        while let Ok(mut room) = budget.room(1, PAGE_BYTES).await {
            assert!(room.keep(4_000_000));
            held.push(room);
        }
        assert!((6..=8).contains(&held.len()), "{}", held.len());
        budget.room(2, PAGE_BYTES).await.unwrap();
        for room in &mut held {
            assert!(room.keep(1_000));
        }
        budget.room(1, PAGE_BYTES).await.unwrap();
        held.clear();
        budget.room(3, PAGE_BYTES).await.unwrap();
        assert_eq!(budget.shares.len(), 1, "nobody is kept");
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn users_who_do_not_read_leave_room_for_one_more_however_many_they_are() {
        let budget = AnswerBudget::default();
        let mut held = Vec::new();
        for user in 1..=8 {
            while let Ok(room) = budget.room(user, PAGE_BYTES).await {
                held.push(room);
            }
        }
        held.push(budget.room(9, PAGE_BYTES).await.unwrap());
        for user in 10..30 {
            while let Ok(room) = budget.room(user, PAGE_BYTES).await {
                held.push(room);
            }
            held.push(budget.room(100 + user, 256 << 10).await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_larger_than_was_reserved_takes_more_or_is_none() {
        let budget = AnswerBudget::default();
        let mut first = budget.room(1, 1 << 10).await.unwrap();
        assert!(first.keep(20 << 20));
        let mut second = budget.room(1, 1 << 10).await.unwrap();
        assert!(!second.keep(20 << 20), "the user has 32 MiB");
        drop(first);
        assert!(second.keep(20 << 20));
        drop(second);
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }
}
