//! Concurrency limit of queries in ClickHouse: a few for each organization, more in all.
//!
//! A query holds its slot until the last byte of its answer is sent. The engine has a limit of its
//! own for the queries of all processes.

use crate::response::keyed::KeyedSemaphores;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use uuid::Uuid;

/// Most queries at a time.
pub(crate) const ALL_MAX: usize = 16;
/// Most of them for one organization.
pub(crate) const ORGANIZATION_MAX: usize = 4;
/// Longest wait for a slot.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Slots of queries. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlots {
    all: Arc<Semaphore>,
    organizations: Arc<KeyedSemaphores<Uuid>>,
}

/// Permit for one query, held until it is dropped.
#[derive(Debug)]
pub(crate) struct QueryPermit {
    _all: OwnedSemaphorePermit,
    _organization: OwnedSemaphorePermit,
}

impl Default for QuerySlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_MAX)),
            organizations: Arc::new(KeyedSemaphores::new(ORGANIZATION_MAX)),
        }
    }
}

impl QuerySlots {
    /// Waits a while for a slot of an organization; `None` if as many queries run as may.
    pub(crate) async fn acquire(&self, organization_id: Uuid) -> Option<QueryPermit> {
        let acquired = async {
            // The organization's own first: a query that waits for another of the same is not in
            // the queue of all.
            let organization = self.organizations.of(organization_id);
            let organization = organization.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(QueryPermit {
                _all: all,
                _organization: organization,
            })
        };
        timeout(WAIT_MAX, acquired).await.ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_organization_with_many_queries_leaves_slots_for_others() {
        let slots = QuerySlots::default();
        let organization = |number: u128| Uuid::from_u128(number);
        let mut held = Vec::new();
        for _ in 0..ORGANIZATION_MAX {
            held.push(slots.acquire(organization(1)).await.unwrap());
        }
        assert!(slots.acquire(organization(1)).await.is_none());
        held.push(slots.acquire(organization(2)).await.unwrap());
        held.pop();
        held.pop();
        slots.acquire(organization(1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_organizations_together_have_a_limit() {
        let slots = QuerySlots::default();
        let mut held = Vec::new();
        for number in 0..ALL_MAX {
            let organization = Uuid::from_u128(number as u128);
            held.push(slots.acquire(organization).await.unwrap());
        }
        let other = Uuid::from_u128(99);
        assert!(slots.acquire(other).await.is_none());
        held.clear();
        slots.acquire(other).await.unwrap();
    }
}
