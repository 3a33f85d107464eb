//! Memory budget of bodies and responses, from before a body is read until the last byte of its
//! response is sent.
//!
//! A request reserves the size of its body and of the largest response of its operation, and then
//! keeps what its response needs. A user who has used up their share waits until their own
//! responses are read, and gets 503 after a while; other users are not affected.
//!
//! Users are free, so the users of an organization have a share together, of which each user gets
//! at most half of what is left: so none keeps out their colleagues, and all of them nobody else.
//! Requests that concern no organization, as a list of the user's own keys, take a part of what is
//! left that is smaller than an organization's: enough for those is always left.

use super::keyed::KeyedSemaphores;
use crate::error::ApiError;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// Memory of all responses, in KiB.
const ALL_KIB: u32 = 256 << 10;
/// Memory of the responses to all users of one organization, in KiB.
const ORGANIZATION_KIB: u32 = 80 << 10;
/// Memory of one user's responses, in KiB.
const SHARE_KIB: u32 = 32 << 10;
/// Divisor of the memory that is left: an organization may hold at most one part of it, so that
/// there is always some for organizations that hold none yet.
const PARTS_OF_REST: usize = 2;
/// Divisor of the memory that is left to an organization: a user may hold at most one part of it.
const PARTS_OF_ORGANIZATION: usize = 2;
/// Divisor of the memory that is left: a user may hold at most one part of it by requests that
/// concern no organization.
const PARTS_OF_REST_ALONE: usize = 16;
/// Longest wait for memory, and the interval at which waiting requests try again.
const WAIT_MAX: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Memory budget of all responses.
#[derive(Debug)]
pub(crate) struct ResponseBudget {
    all: Arc<Semaphore>,
    /// Shares of the organizations whose users hold or wait for memory.
    organizations: KeyedSemaphores<Uuid>,
    /// Shares of the users that hold or wait for memory.
    users: KeyedSemaphores<i64>,
}

/// Memory reserved for one response; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct ResponseMemory {
    /// Permits of the whole budget, the user's share and the organization's.
    permits: Vec<OwnedSemaphorePermit>,
}

/// Shares from which a request reserves.
struct Shares {
    user: Arc<Semaphore>,
    organization: Option<Arc<Semaphore>>,
}

impl Default for ResponseBudget {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_KIB as usize)),
            organizations: KeyedSemaphores::new(ORGANIZATION_KIB as usize),
            users: KeyedSemaphores::new(SHARE_KIB as usize),
        }
    }
}

impl ResponseBudget {
    /// Reserves memory of the shares of a user and of the organization that the request concerns,
    /// for a body and a response.
    ///
    /// # Errors
    ///
    /// 503 after 10 seconds: responses to the user, to the organization's users or to all users are
    /// not read.
    pub(crate) async fn reserve(
        &self,
        user_id: i64,
        organization_id: Option<Uuid>,
        bytes: usize,
    ) -> Result<ResponseMemory, ApiError> {
        let kib = kib(bytes);
        let shares = Shares {
            user: self.users.of(user_id),
            organization: organization_id.map(|id| self.organizations.of(id)),
        };
        let memory = async {
            loop {
                if let Some(memory) = self.try_reserve(&shares, kib) {
                    return memory;
                }
                sleep(LOOK_EVERY).await;
            }
        };
        let memory = timeout(WAIT_MAX, memory).await;
        memory.map_err(|_| ApiError::responses_unread())
    }

    /// Reserves memory that is available now.
    fn try_reserve(&self, shares: &Shares, kib: u32) -> Option<ResponseMemory> {
        let left = self.all.available_permits();
        let with = |held: usize| held + kib as usize;
        let of_user = with(SHARE_KIB as usize - shares.user.available_permits());
        let is_within = match &shares.organization {
            Some(organization) => {
                let left_to_it = organization.available_permits();
                let of_it = with(ORGANIZATION_KIB as usize - left_to_it);
                of_it <= left / PARTS_OF_REST && of_user <= left_to_it / PARTS_OF_ORGANIZATION
            }
            None => of_user <= left / PARTS_OF_REST_ALONE,
        };
        if !is_within {
            return None;
        }
        let semaphores = [
            Some(&self.all),
            Some(&shares.user),
            shares.organization.as_ref(),
        ];
        let permits = semaphores.into_iter().flatten().map(|semaphore| {
            let permit = Arc::clone(semaphore).try_acquire_many_owned(kib);
            permit.ok()
        });
        let permits = permits.collect::<Option<_>>()?;
        Some(ResponseMemory { permits })
    }
}

impl ResponseMemory {
    /// Resizes the reservation to a response of `bytes` bytes: gives the rest back, or takes more.
    /// Returns false if there is no more.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let needed = kib(bytes) as usize;
        self.permits.iter_mut().all(|permit| {
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
    const SMALL_BYTES: usize = 256 << 10;

    fn organization(number: u128) -> Option<Uuid> {
        Some(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn a_user_with_unread_responses_waits_and_others_do_not() {
        let budget = ResponseBudget::default();
        let ours = organization(1);
        let mut held = Vec::new();
        while let Ok(mut memory) = budget.reserve(1, ours, PAGE_BYTES).await {
            assert!(memory.resize(4_000_000));
            held.push(memory);
        }
        assert!((6..=8).contains(&held.len()), "{}", held.len());
        budget.reserve(2, ours, PAGE_BYTES).await.unwrap();
        for memory in &mut held {
            assert!(memory.resize(1_000));
        }
        budget.reserve(1, ours, PAGE_BYTES).await.unwrap();
        held.clear();
        budget.reserve(3, ours, PAGE_BYTES).await.unwrap();
        budget.reserve(3, None, PAGE_BYTES).await.unwrap();
        assert_eq!(
            (budget.users.len(), budget.organizations.len()),
            (1, 1),
            "shares that nobody holds are removed"
        );
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }

    #[tokio::test(start_paused = true)]
    async fn users_of_one_organization_keep_out_neither_others_nor_their_colleagues() {
        let budget = ResponseBudget::default();
        let (hostile, good) = (organization(1), organization(2));
        let mut held = Vec::new();
        for user in 1..=20 {
            while let Ok(memory) = budget.reserve(user, hostile, PAGE_BYTES).await {
                held.push(memory);
            }
            let colleague = budget.reserve(200 + user, hostile, SMALL_BYTES);
            held.push(colleague.await.unwrap());
        }
        for _ in 0..3 {
            held.push(budget.reserve(100, good, PAGE_BYTES).await.unwrap());
        }
        for user in 1..=60 {
            while let Ok(memory) = budget.reserve(user, None, PAGE_BYTES).await {
                held.push(memory);
            }
        }
        held.push(budget.reserve(101, good, PAGE_BYTES).await.unwrap());
        held.push(budget.reserve(102, None, SMALL_BYTES).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn unread_responses_of_many_organizations_leave_memory_for_a_new_one() {
        let budget = ResponseBudget::default();
        let mut held = Vec::new();
        let of = |user: i64| organization(user.unsigned_abs().into());
        for user in 1..=8 {
            while let Ok(memory) = budget.reserve(user, of(user), PAGE_BYTES).await {
                held.push(memory);
            }
        }
        held.push(budget.reserve(9, of(9), PAGE_BYTES).await.unwrap());
        for user in 10..30 {
            while let Ok(memory) = budget.reserve(user, of(user), PAGE_BYTES).await {
                held.push(memory);
            }
            let small = budget.reserve(100 + user, of(100 + user), SMALL_BYTES);
            held.push(small.await.unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_larger_than_its_reservation_takes_more_memory_or_fails() {
        let budget = ResponseBudget::default();
        let mut first = budget.reserve(1, organization(1), 1 << 10).await.unwrap();
        assert!(first.resize(20 << 20));
        let mut second = budget.reserve(1, organization(2), 1 << 10).await.unwrap();
        assert!(!second.resize(20 << 20), "the user has 32 MiB");
        drop(first);
        assert!(second.resize(20 << 20));
        drop(second);
        assert_eq!(budget.all.available_permits(), ALL_KIB as usize);
    }
}
