//! Limits concurrent parser processes: a few in all, one of an organization, so that others wait
//! for one of its sources at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use uuid::Uuid;

/// Concurrent processes.
const PROCESSES_MAX: usize = 2;

/// Limiter of concurrent processes, fair between organizations.
#[derive(Debug)]
pub(super) struct ProcessLimiter {
    processes: Semaphore,
    /// Queue of each organization that waits for a permit or holds one.
    queues: Mutex<HashMap<Uuid, Weak<Semaphore>>>,
}

/// Permit to run a process.
#[derive(Debug)]
pub(super) struct ProcessPermit<'a> {
    _process: SemaphorePermit<'a>,
    _queue: OwnedSemaphorePermit,
}

impl Default for ProcessLimiter {
    fn default() -> Self {
        Self {
            processes: Semaphore::new(PROCESSES_MAX),
            queues: Mutex::default(),
        }
    }
}

impl ProcessLimiter {
    /// Waits for a permit for an organization.
    pub(super) async fn acquire(
        &self,
        organization_id: Uuid,
    ) -> Result<ProcessPermit<'_>, AcquireError> {
        let queue = self.queue(organization_id).acquire_owned().await?;
        Ok(ProcessPermit {
            _process: self.processes.acquire().await?,
            _queue: queue,
        })
    }

    fn queue(&self, organization_id: Uuid) -> Arc<Semaphore> {
        let queues = self.queues.lock();
        let mut queues = queues.unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.get(&organization_id).and_then(Weak::upgrade) {
            return queue;
        }
        queues.retain(|_, queue| queue.strong_count() > 0);
        let queue = Arc::new(Semaphore::new(1));
        queues.insert(organization_id, Arc::downgrade(&queue));
        queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn an_organization_holds_one_permit_however_much_it_sends() {
        let limiter = ProcessLimiter::default();
        let (hostile, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let soon = Duration::from_secs(1);
        let first = limiter.acquire(hostile).await.unwrap();
        assert!(timeout(soon, limiter.acquire(hostile)).await.is_err());
        let second = timeout(soon, limiter.acquire(other))
            .await
            .unwrap()
            .unwrap();
        let third = Uuid::from_u128(3);
        assert!(timeout(soon, limiter.acquire(third)).await.is_err());
        drop(second);
        drop(
            timeout(soon, limiter.acquire(third))
                .await
                .unwrap()
                .unwrap(),
        );
        drop(first);
        drop(
            timeout(soon, limiter.acquire(hostile))
                .await
                .unwrap()
                .unwrap(),
        );
        assert_eq!(
            limiter.queues.lock().unwrap().len(),
            1,
            "queues of organizations without sources are dropped"
        );
    }
}
