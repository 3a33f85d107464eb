//! How many sources are read at a time: few, and of one organization one after the other, so that
//! others wait for one source of it at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use uuid::Uuid;

/// Processes at a time.
const PROCESSES_MAX: usize = 2;

/// The queue before the processes.
#[derive(Debug)]
pub(super) struct Turns {
    processes: Semaphore,
    /// One place for each organization that waits or has its turn.
    places: Mutex<HashMap<Uuid, Weak<Semaphore>>>,
}

/// The right to have a process.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _process: SemaphorePermit<'a>,
    _place: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        Self {
            processes: Semaphore::new(PROCESSES_MAX),
            places: Mutex::default(),
        }
    }
}

impl Turns {
    /// Waits for an organization's turn.
    pub(super) async fn wait(&self, organization_id: Uuid) -> Result<Turn<'_>, AcquireError> {
        let place = self.place(organization_id).acquire_owned().await?;
        Ok(Turn {
            _process: self.processes.acquire().await?,
            _place: place,
        })
    }

    fn place(&self, organization_id: Uuid) -> Arc<Semaphore> {
        let places = self.places.lock();
        let mut places = places.unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = places.get(&organization_id).and_then(Weak::upgrade) {
            return place;
        }
        places.retain(|_, place| place.strong_count() > 0);
        let place = Arc::new(Semaphore::new(1));
        places.insert(organization_id, Arc::downgrade(&place));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn an_organization_takes_one_place_however_much_it_sends() {
        let turns = Turns::default();
        let (hostile, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let soon = Duration::from_secs(1);
        let first = turns.wait(hostile).await.unwrap();
        assert!(timeout(soon, turns.wait(hostile)).await.is_err());
        let second = timeout(soon, turns.wait(other)).await.unwrap().unwrap();
        let third = Uuid::from_u128(3);
        assert!(timeout(soon, turns.wait(third)).await.is_err());
        drop(second);
        drop(timeout(soon, turns.wait(third)).await.unwrap().unwrap());
        drop(first);
        drop(timeout(soon, turns.wait(hostile)).await.unwrap().unwrap());
        assert_eq!(turns.places.lock().unwrap().len(), 1, "nobody is kept");
    }
}
