//! Turns of reads whose answers may be large: one of a user at a time, and a few of all.
//!
//! A page is read from the catalog by many statements, each of which waits for one of its few
//! connections. Those of fifty pages that a few users ask for at once would be ahead of each statement
//! of all others, who would give up; so whoever asks for much at once waits for themselves.

use super::per_user::PerUser;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Less than the catalog has connections for readers in SQLite: one is left for whatever is small.
const AT_A_TIME: usize = 3;

/// Who reads what is large.
#[derive(Debug)]
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    users: PerUser,
}

/// Somebody's turn, until it is dropped. The semaphores are never closed.
#[derive(Debug)]
pub(crate) struct Turn {
    _all: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_A_TIME)),
            users: PerUser::new(1),
        }
    }
}

impl Turns {
    /// A user's next turn: users who wait have theirs in the order in which they came, however many
    /// reads each of them waits with.
    pub(crate) async fn of(&self, user_id: i64) -> Turn {
        // First, as who waits for themselves has no place in the queue of all.
        let own = self.users.of(user_id).acquire_owned().await.ok();
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn {
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
    async fn who_asks_for_much_at_once_waits_for_themselves_and_a_newcomer_is_next() {
        let turns = Turns::default();
        let first = turns.of(1).await;
        let mut more: Vec<_> = (0..50).map(|_| Box::pin(turns.of(1))).collect();
        for read in &mut more {
            assert!(read.now_or_never().is_none());
        }
        let others = [2, 3].map(|user| turns.of(user).now_or_never().unwrap());
        let mut newcomer = Box::pin(turns.of(4));
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
        turns.of(5).await;
        assert_eq!(turns.users.len(), 1, "nobody is kept");
    }
}
