//! Concurrency limit of queries in ClickHouse: a few for each organization, more in all. And each
//! organization has a share of each hour, so that none takes the others' part.
//!
//! A query holds its slot until the last byte of its answer is sent, or, if its client goes, until
//! ClickHouse has ended it, which it may not do at once. The engine has a limit of its own for the
//! queries of all processes.

use crate::project_queries::ProjectQueries;
use crate::response::keyed::KeyedSemaphores;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// Most queries at a time.
pub(crate) const ALL_MAX: usize = 16;
/// Most of them for one organization.
pub(crate) const ORGANIZATION_MAX: usize = 4;
/// Longest wait for a slot.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Time that all queries of an organization may take in an hour, in each process: half of what its
/// slots could.
const ORGANIZATION_TIME_MAX: Duration = Duration::from_secs(2 * 3600);
/// Time after which an organization may take as much again.
const HOUR: Duration = Duration::from_secs(3600);

/// Pause between two questions whether a query without a client has ended.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Longest time that such a query holds its slot: ClickHouse is started again before.
const OVERSTAY_MAX: Duration = Duration::from_secs(600);

/// Slots of queries. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct QuerySlots {
    all: Arc<Semaphore>,
    organizations: Arc<KeyedSemaphores<Uuid>>,
    hours: Arc<Hours>,
}

/// Permit for one query, held until it is dropped.
#[derive(Debug)]
pub(crate) struct QueryPermit {
    _all: OwnedSemaphorePermit,
    _organization: OwnedSemaphorePermit,
    organization_id: Uuid,
    begun: Instant,
    hours: Arc<Hours>,
}

/// Permit of a query that has begun. Dropped, it is given back when the query has ended.
#[derive(Debug)]
pub(crate) struct RunningPermit {
    permit: Option<QueryPermit>,
    queries: Arc<dyn ProjectQueries>,
    project_id: i64,
    query_id: Uuid,
}

/// Reason that a query has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// As many queries run as may.
    Full,
    /// The organization's queries of this hour have taken all of their time.
    HourUsedUp,
}

/// Time that the queries of each organization have taken in its present hour.
#[derive(Debug, Default)]
struct Hours(Mutex<HashMap<Uuid, Hour>>);

#[derive(Debug)]
struct Hour {
    begun: Instant,
    taken: Duration,
}

impl Default for QuerySlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_MAX)),
            organizations: Arc::new(KeyedSemaphores::new(ORGANIZATION_MAX)),
            hours: Arc::default(),
        }
    }
}

impl QuerySlots {
    /// Waits a while for a slot of an organization.
    pub(crate) async fn acquire(&self, organization_id: Uuid) -> Result<QueryPermit, NoSlot> {
        if self.hours.is_used_up(organization_id) {
            return Err(NoSlot::HourUsedUp);
        }
        let acquired = async {
            // The organization's own first: a query that waits for another of the same is not in
            // the queue of all.
            let organization = self.organizations.of(organization_id);
            let organization = organization.acquire_owned().await.ok()?;
            let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
            Some(QueryPermit {
                _all: all,
                _organization: organization,
                organization_id,
                begun: Instant::now(),
                hours: Arc::clone(&self.hours),
            })
        };
        let acquired = timeout(WAIT_MAX, acquired).await.ok().flatten();
        acquired.ok_or(NoSlot::Full)
    }
}

// === impl QueryPermit ===

impl QueryPermit {
    /// Holds the permit for a query until that has ended.
    pub(crate) fn until_ended(
        self,
        queries: Arc<dyn ProjectQueries>,
        project_id: i64,
        query_id: Uuid,
    ) -> RunningPermit {
        RunningPermit {
            permit: Some(self),
            queries,
            project_id,
            query_id,
        }
    }
}

impl Drop for QueryPermit {
    fn drop(&mut self) {
        self.hours.add(self.organization_id, self.begun.elapsed());
    }
}

// === impl RunningPermit ===

impl Drop for RunningPermit {
    fn drop(&mut self) {
        let (Some(permit), Ok(runtime)) = (self.permit.take(), Handle::try_current()) else {
            return;
        };
        let queries = Arc::clone(&self.queries);
        let (project_id, query_id) = (self.project_id, self.query_id);
        runtime.spawn(async move {
            let begun = Instant::now();
            while begun.elapsed() < OVERSTAY_MAX && !queries.has_ended(project_id, query_id).await {
                sleep(ASK_EVERY).await;
            }
            drop(permit);
        });
    }
}

// === impl Hours ===

impl Hours {
    fn is_used_up(&self, organization_id: Uuid) -> bool {
        let hours = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hour = hours.get(&organization_id);
        hour.is_some_and(|hour| hour.begun.elapsed() < HOUR && hour.taken >= ORGANIZATION_TIME_MAX)
    }

    fn add(&self, organization_id: Uuid, taken: Duration) {
        let mut hours = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of organizations that no longer ask go, too.
        hours.retain(|_, hour| hour.begun.elapsed() < HOUR);
        let hour = hours.entry(organization_id).or_insert_with(|| Hour {
            begun: Instant::now(),
            taken: Duration::ZERO,
        });
        hour.taken = hour.taken.saturating_add(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project_queries::{
        LoginPlace, NewPassword, ProjectQuery, QueryAnswer, QueryFailure,
    };
    use async_trait::async_trait;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test(start_paused = true)]
    async fn an_organization_with_many_queries_leaves_slots_for_others() {
        let slots = QuerySlots::default();
        let organization = |number: u128| Uuid::from_u128(number);
        let mut held = Vec::new();
        for _ in 0..ORGANIZATION_MAX {
            held.push(slots.acquire(organization(1)).await.unwrap());
        }
        assert_eq!(
            slots.acquire(organization(1)).await.unwrap_err(),
            NoSlot::Full
        );
        held.push(slots.acquire(organization(2)).await.unwrap());
        held.pop();
        held.pop();
        slots.acquire(organization(1)).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn an_organization_that_used_up_its_hour_waits_and_others_do_not() {
        let slots = QuerySlots::default();
        let (first, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        for _ in 0..6 {
            let mut held = Vec::new();
            for _ in 0..ORGANIZATION_MAX {
                held.push(slots.acquire(first).await.unwrap());
            }
            tokio::time::advance(Duration::from_secs(300)).await;
        }
        let refused = slots.acquire(first).await.unwrap_err();
        assert_eq!(refused, NoSlot::HourUsedUp);
        slots.acquire(other).await.unwrap();
        tokio::time::advance(HOUR).await;
        slots.acquire(first).await.unwrap();
    }

    /// ClickHouse in which a query runs until it is set to have ended.
    #[derive(Debug, Default)]
    struct Running(AtomicBool);

    #[async_trait]
    impl ProjectQueries for Running {
        async fn run(&self, _: ProjectQuery) -> Result<QueryAnswer, QueryFailure> {
            Err(QueryFailure::Busy)
        }

        async fn stop(&self, _: i64, _: Uuid) -> Result<bool, QueryFailure> {
            Ok(true)
        }

        async fn has_ended(&self, _: i64, _: Uuid) -> bool {
            self.0.load(Ordering::Relaxed)
        }

        async fn login_place(&self, _: i64) -> Result<LoginPlace, QueryFailure> {
            Err(QueryFailure::Busy)
        }

        fn new_password(&self, _: i64) -> NewPassword {
            panic!("nobody asks for one")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_without_a_client_holds_its_slot_until_it_has_ended() {
        let (slots, queries) = (QuerySlots::default(), Arc::new(Running::default()));
        let organization_id = Uuid::from_u128(1);
        for number in 0..ORGANIZATION_MAX {
            let permit = slots.acquire(organization_id).await.unwrap();
            let queries = Arc::clone(&queries);
            drop(permit.until_ended(queries, 7, Uuid::from_u128(number as u128)));
        }
        let refused = slots.acquire(organization_id).await.unwrap_err();
        assert_eq!(refused, NoSlot::Full);
        queries.0.store(true, Ordering::Relaxed);
        slots.acquire(organization_id).await.unwrap();
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
        assert_eq!(slots.acquire(other).await.unwrap_err(), NoSlot::Full);
        held.clear();
        slots.acquire(other).await.unwrap();
    }
}
