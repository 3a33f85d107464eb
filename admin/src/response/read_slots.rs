//! Concurrency limit of reads with large responses: one at a time for each user, a few in all.
//!
//! A page is read from the catalog by many statements, each of which waits for one of its few
//! connections. Without the limit, fifty pages that a few users request at once would queue ahead
//! of everybody else's statements, which would time out. Users who request much wait for their
//! own reads instead.

use super::per_user::PerUser;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most large reads at a time: less than the catalog's connections for readers in SQLite, so that
/// one is left for small reads.
const AT_A_TIME: usize = 3;

/// Slots of large reads.
#[derive(Debug)]
pub(crate) struct ReadSlots {
    all: Arc<Semaphore>,
    users: PerUser,
}

/// Permit for one large read, held until it is dropped. The semaphores are never closed.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

impl Default for ReadSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_A_TIME)),
            users: PerUser::new(1),
        }
    }
}

impl ReadSlots {
    /// Waits for a slot. Waiting users get one in the order in which they came, however many reads
    /// each of them waits with.
    pub(crate) async fn acquire(&self, user_id: i64) -> ReadPermit {
        // The user's own first: a read that waits for another of its user is not in the queue of
        // all.
        let own = self.users.of(user_id).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        ReadPermit {
            _all: all,
            _own: own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn reads_of_one_user_wait_for_each_other_and_a_new_user_is_next() {
        let slots = ReadSlots::default();
        let first = slots.acquire(1).await;
        let mut more: Vec<_> = (0..50).map(|_| Box::pin(slots.acquire(1))).collect();
        for read in &mut more {
            assert!(read.now_or_never().is_none());
        }
        let others = [2, 3].map(|user| slots.acquire(user).now_or_never().unwrap());
        let mut newcomer = Box::pin(slots.acquire(4));
        assert!((&mut newcomer).now_or_never().is_none(), "three of all");
        drop(first);
        for read in &mut more {
            assert!(read.now_or_never().is_none());
        }
        let newcomer = (&mut newcomer).now_or_never().unwrap();
        drop(newcomer);
        let next = more.iter_mut().filter_map(FutureExt::now_or_never);
        assert_eq!(next.collect::<Vec<_>>().len(), 1);
        drop((more, others));
        slots.acquire(5).await;
        assert_eq!(slots.users.len(), 1, "users without reads are removed");
    }
}
