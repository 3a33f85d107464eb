//! Epochs of the requests under way, so that a time can be named before which none makes a row.
//!
//! A request *enters* when its head was read, and leaves when its rows are with the commit thread,
//! or there will be none. To name a time T, one raises `min_created_at` to it, begins a new epoch,
//! and waits until no request is left of the old one. That is enough:
//!
//! - requests that entered in the new epoch read `min_created_at` after that, so their rows are of
//!   T or later, whatever the clock shows;
//! - requests that entered in the old one are waited for, whatever their rows say.
//!
//! Entering needs care: a request could read the epoch, be held up, and count itself in one that is
//! thought to be over. So it counts itself first and looks again: either it still sees the old
//! epoch, then its count came before the new one began, and is seen; or it does not, and starts
//! over. Both sides write one thing and then read the other, which takes sequentially consistent
//! accesses.
//!
//! There are counts for even and for odd epochs only: an epoch begins once no request is left of
//! the one before the last.
//!
//! The cost of a request is one locked addition and three loads; its counts lie in a cache line
//! that only its own core writes. That is why entering and leaving are bound to a thread.

use crossbeam_utils::CachePadded;
use millrace_rows::{Clock, Micros};
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Requests under way on all cores, by epoch; clones share them.
#[derive(Clone, Debug)]
pub struct RequestEpochs(Arc<EpochState>);

#[derive(Debug)]
struct EpochState {
    epoch: AtomicU64,
    /// Earliest `created_at` that a row may get, in microseconds.
    min_created_at: AtomicI64,
    /// Counts of all cores. Read where the end of an epoch is waited for, and added to when a core
    /// starts.
    cores: Mutex<Vec<Arc<Counts>>>,
}

/// Requests of one core that entered in an even epoch, and in an odd one. Only the core writes.
type Counts = CachePadded<[AtomicU64; 2]>;

/// Requests under way on one core, by epoch. Stays on its core's thread, or its counts would be
/// lost.
#[derive(Debug)]
pub struct CoreEpochs {
    shared: Arc<EpochState>,
    counts: Arc<Counts>,
}

/// Guard of a request under way. While it is kept, the watermark does not pass its rows.
#[derive(Debug)]
pub struct EpochGuard {
    core: Rc<CoreEpochs>,
    epoch: u64,
    /// Time at which the request came, by the clock.
    pub received_at: Micros,
    /// Time that its rows get: the same, or later where exports may have passed it.
    pub created_at: Micros,
}

impl Default for RequestEpochs {
    fn default() -> Self {
        Self::new(None)
    }
}

// === impl RequestEpochs ===

impl RequestEpochs {
    /// Returns epochs without requests; `min_created_at` is the catalog's.
    #[must_use]
    pub fn new(min_created_at: Option<Micros>) -> Self {
        Self(Arc::new(EpochState {
            epoch: AtomicU64::new(0),
            min_created_at: AtomicI64::new(
                min_created_at.map_or(i64::MIN, |min_created_at| min_created_at.0),
            ),
            cores: Mutex::default(),
        }))
    }

    /// Epochs of one more core, to be kept by its thread.
    pub(crate) fn for_core(&self) -> Rc<CoreEpochs> {
        let counts = Arc::<Counts>::default();
        // A core that comes while an epoch's end is waited for sees the new epoch: the lock orders
        // it.
        self.cores().push(Arc::clone(&counts));
        Rc::new(CoreEpochs {
            shared: Arc::clone(&self.0),
            counts,
        })
    }

    /// Raises the earliest `created_at` of rows from the next epoch on. It never falls.
    pub fn raise_min_created_at(&self, to: Micros) {
        self.0.min_created_at.fetch_max(to.0, Ordering::SeqCst);
    }

    /// Earliest `created_at` of rows made in this epoch.
    #[must_use]
    pub fn min_created_at(&self) -> Option<Micros> {
        let min_created_at = self.0.min_created_at.load(Ordering::SeqCst);
        (min_created_at != i64::MIN).then_some(Micros(min_created_at))
    }

    /// Number of the present epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::SeqCst)
    }

    /// Begins a new epoch and returns the old one, whose end must be waited for before the next
    /// call.
    pub(super) fn next_epoch(&self) -> u64 {
        self.0.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns true if no request is left that entered in this epoch, which is the last but one at
    /// the most.
    pub(super) fn is_over(&self, epoch: u64) -> bool {
        let left = |counts: &Arc<Counts>| of_epoch(counts, epoch).load(Ordering::SeqCst) > 0;
        !self.cores().iter().any(left)
    }

    fn cores(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        // A list is still a list after a panic.
        self.0.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_epoch(counts: &Counts, epoch: u64) -> &AtomicU64 {
    let [even, odd] = &**counts;
    if epoch.is_multiple_of(2) { even } else { odd }
}

// === impl CoreEpochs ===

impl CoreEpochs {
    /// Enters the present epoch; reads `min_created_at` after the request counts.
    #[must_use]
    pub fn enter(self: &Rc<Self>, clock: &dyn Clock) -> EpochGuard {
        let epoch = loop {
            let epoch = self.epoch();
            self.begin(epoch);
            if self.epoch() == epoch {
                break epoch;
            }
            self.end(epoch);
        };
        let received_at = clock.now();
        EpochGuard {
            core: Rc::clone(self),
            epoch,
            received_at,
            created_at: self.at_least_min_created_at(received_at),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::SeqCst)
    }

    pub(super) fn begin(&self, epoch: u64) {
        of_epoch(&self.counts, epoch).fetch_add(1, Ordering::SeqCst);
    }

    /// Leaves an epoch. No other thread writes the count, so it takes no locked instruction. A
    /// thread that sees it at zero sees what the request did before.
    pub(super) fn end(&self, epoch: u64) {
        let count = of_epoch(&self.counts, epoch);
        let others = count.load(Ordering::Relaxed).saturating_sub(1);
        count.store(others, Ordering::Release);
    }

    pub(super) fn at_least_min_created_at(&self, now: Micros) -> Micros {
        Micros(
            now.0
                .max(self.shared.min_created_at.load(Ordering::Relaxed)),
        )
    }
}

// === impl EpochGuard ===

impl Drop for EpochGuard {
    fn drop(&mut self) {
        self.core.end(self.epoch);
    }
}
