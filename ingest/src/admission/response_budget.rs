//! Memory of responses until they were sent, a part of the [`Budget`] of bodies.
//!
//! A client that does not read a long response holds it for as long as its socket may stall. Anyone
//! who looks at a page has a project key, so long responses have a part of the budget, and no
//! organization gets more than half of what the others leave of it. Responses up to 64 KiB are
//! bounded by the number of connections, and count against the whole budget alone.

use super::budget::{Budget, SMALL_BYTES_MAX, Share};
use super::month_limiter::MonthOwner;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes up to which a response is not counted, which are those of nearly all requests.
pub const UNCOUNTED_BYTES_MAX: usize = 4 << 10;
/// Divisor of the budget for long responses.
const LONG_DIVISOR: usize = 4;

/// Bytes of responses in memory, shared by all cores. Only long responses lock them.
#[derive(Debug)]
pub struct ResponseBudget {
    budget: Arc<Budget>,
    long: Arc<Mutex<LongResponses>>,
    long_bytes_max: usize,
}

/// Part of the budget that one response holds until it was sent.
#[derive(Debug)]
pub struct ResponseShare {
    _share: Share,
    _long: Option<LongShare>,
}

/// Bytes of long responses, by the owner of their projects.
#[derive(Debug, Default)]
struct LongResponses {
    bytes: usize,
    owners: BTreeMap<MonthOwner, usize>,
}

/// Bytes of one long response.
#[derive(Debug)]
struct LongShare {
    long: Arc<Mutex<LongResponses>>,
    owner: MonthOwner,
    bytes: usize,
}

// === impl ResponseBudget ===

impl ResponseBudget {
    /// Returns a part of `budget`, which has so many bytes.
    pub fn new(budget: Arc<Budget>, bytes_max: usize) -> Self {
        Self {
            budget,
            long: Arc::default(),
            long_bytes_max: bytes_max / LONG_DIVISOR,
        }
    }

    /// Returns a share of so many bytes; `None` when there are not as many left. The owner is asked
    /// for only if the response is long.
    pub fn share(&self, bytes: usize, owner: impl FnOnce() -> MonthOwner) -> Option<ResponseShare> {
        let mut share = self.budget.share();
        share.mark_project_known();
        if !share.grow_to(bytes) {
            return None;
        }
        let mut long = None;
        if bytes > SMALL_BYTES_MAX {
            let owner = owner();
            if !lock(&self.long).take(owner, bytes, self.long_bytes_max) {
                return None;
            }
            long = Some(LongShare {
                long: Arc::clone(&self.long),
                owner,
                bytes,
            });
        }
        Some(ResponseShare {
            _share: share,
            _long: long,
        })
    }
}

fn lock(long: &Mutex<LongResponses>) -> MutexGuard<'_, LongResponses> {
    // Counts are still counts after a panic.
    long.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl LongResponses ===

impl LongResponses {
    /// Takes so many bytes for an owner; returns `false` if it would have more than half of what
    /// others leave.
    fn take(&mut self, owner: MonthOwner, bytes: usize, bytes_max: usize) -> bool {
        let held = self.owners.get(&owner).copied().unwrap_or(0);
        let others = self.bytes.saturating_sub(held);
        if held.saturating_add(bytes) > bytes_max.saturating_sub(others) / 2 {
            return false;
        }
        self.bytes += bytes;
        self.owners.insert(owner, held + bytes);
        true
    }

    /// Gives so many bytes of an owner back.
    fn give(&mut self, owner: MonthOwner, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        let held = self.owners.remove(&owner).unwrap_or(0);
        if held > bytes {
            self.owners.insert(owner, held - bytes);
        }
    }
}

impl Drop for LongShare {
    fn drop(&mut self) {
        lock(&self.long).give(self.owner, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_rows::ProjectId;

    const MIB: usize = 1 << 20;

    /// Takes shares of so many bytes for a project, as many as it gets.
    fn shares(responses: &ResponseBudget, bytes: usize, project: i64) -> Vec<ResponseShare> {
        let owner = || MonthOwner::Project(ProjectId(project));
        std::iter::from_fn(|| responses.share(bytes, owner)).collect()
    }

    #[test]
    fn long_responses_share_a_quarter_and_one_owner_gets_half_of_the_rest() {
        let budget = Budget::new(64 * MIB);
        let responses = ResponseBudget::new(Arc::clone(&budget), 64 * MIB);
        let mut held = Vec::new();
        for (project, count) in [(1, 8), (2, 4), (3, 2), (1, 0), (4, 1), (5, 0)] {
            let got = shares(&responses, MIB, project);
            assert_eq!(got.len(), count, "{project}");
            held.push(got);
        }
        assert_eq!(budget.used(), 15 * MIB);
        held.remove(0);
        assert_eq!(shares(&responses, MIB, 5).len(), 4);
        drop(held);
        assert_eq!(budget.used(), 0);
        let long = lock(&responses.long);
        assert_eq!((long.bytes, long.owners.len()), (0, 0));
    }

    #[test]
    fn small_responses_have_all_that_is_left() {
        let budget = Budget::new(MIB);
        let responses = ResponseBudget::new(Arc::clone(&budget), MIB);
        let held = shares(&responses, SMALL_BYTES_MAX, 1);
        assert_eq!(held.len(), MIB / SMALL_BYTES_MAX);
        assert_eq!(shares(&responses, 1, 2).len(), 0);
        drop(held);
        assert_eq!(budget.used(), 0);
    }
}
