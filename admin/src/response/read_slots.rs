//! Concurrency limit of reads with large responses: one at a time for each user, two for the users
//! of an organization, a few in all.
//!
//! A page is read from the catalog by many statements, each of which waits for one of its few
//! connections. Without the limit, fifty pages that a few users request at once would queue ahead
//! of everybody else's statements, which would time out. Users who request much wait for their
//! own reads instead, and organizations with many users for those of theirs.

use super::keyed::KeyedSemaphores;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use uuid::Uuid;

/// Most large reads at a time: less than the catalog's connections for readers in SQLite, so that
/// one is left for small reads.
const AT_A_TIME: usize = 3;
/// Most of them for the users of one organization.
const OF_ORGANIZATION: usize = 2;

/// Slots of large reads.
#[derive(Debug)]
pub(crate) struct ReadSlots {
    all: Arc<Semaphore>,
    organizations: KeyedSemaphores<Uuid>,
    users: KeyedSemaphores<i64>,
}

/// Permit for one large read, held until it is dropped. The semaphores are never closed.
#[derive(Debug)]
pub(crate) struct ReadPermit {
    _all: Option<OwnedSemaphorePermit>,
    _organization: Option<OwnedSemaphorePermit>,
    _own: Option<OwnedSemaphorePermit>,
}

impl Default for ReadSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_A_TIME)),
            organizations: KeyedSemaphores::new(OF_ORGANIZATION),
            users: KeyedSemaphores::new(1),
        }
    }
}

impl ReadSlots {
    /// Waits for a slot to read things of an organization, if there is one. Waiting organizations
    /// and users get one in the order in which they came, however many reads each of them waits
    /// with.
    pub(crate) async fn acquire(&self, user_id: i64, organization_id: Option<Uuid>) -> ReadPermit {
        // The user's own first, then the organization's: a read that waits for another of the same
        // is not in the queue of all.
        let own = self.users.of(user_id).acquire_owned().await.ok();
        let organization = match organization_id {
            Some(id) => self.organizations.of(id).acquire_owned().await.ok(),
            None => None,
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok();
        ReadPermit {
            _all: all,
            _organization: organization,
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
        let first = slots.acquire(1, None).await;
        let mut more: Vec<_> = (0..50).map(|_| Box::pin(slots.acquire(1, None))).collect();
        for read in &mut more {
            assert!(read.now_or_never().is_none());
        }
        let others = [2, 3].map(|user| slots.acquire(user, None).now_or_never().unwrap());
        let mut newcomer = Box::pin(slots.acquire(4, None));
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
        slots.acquire(5, None).await;
        assert_eq!(slots.users.len(), 1, "users without reads are removed");
    }

    #[tokio::test]
    async fn reads_of_an_organizations_users_leave_a_slot_for_others() {
        let slots = ReadSlots::default();
        let (hostile, good) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut reads: Vec<_> = (1..=50)
            .map(|user| Box::pin(slots.acquire(user, Some(hostile))))
            .collect();
        let held = reads.iter_mut().filter_map(FutureExt::now_or_never);
        let held: Vec<_> = held.collect();
        assert_eq!(held.len(), 2);
        let of_good = slots.acquire(51, Some(good)).now_or_never();
        drop(of_good.unwrap());
        let of_none = slots.acquire(52, None).now_or_never();
        drop(of_none.unwrap());
    }
}
