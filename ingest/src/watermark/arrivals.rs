//! Which requests are under way, so that a time can be named before which none makes a row.
//!
//! A request *enters* when its head was read, and leaves when its rows are with the commit thread, or
//! there will be none. Whoever names a time T raises the floor to it, begins a new epoch, and waits until
//! nobody is left of the old one. Why that is enough:
//!
//! - who entered in the new epoch looks at the floor after that, so its rows are of T or later, whatever
//!   the clock shows;
//! - who entered in the old one is waited for, whatever its rows say.
//!
//! Entering needs care: a request could read the epoch, be held up, and count itself in one that is
//! thought to be over. So it counts itself first and looks again: either it still sees the old
//! epoch, then its count came before the new one began, and is seen; or it does not, and starts over.
//! Both sides write one thing and then read the other, which takes sequentially consistent accesses.
//!
//! There are counts for even and for odd epochs only: an epoch begins when nobody is left of the one
//! before the last.
//!
//! The cost of a request is one locked addition and three loads; its counts lie in a cache line that
//! only its own core writes. That is why entering and leaving are bound to a thread.

use crossbeam::utils::CachePadded;
use millrace_rows::{Clock, Micros};
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests under way of all cores; clones share them.
#[derive(Clone, Debug)]
pub struct Arrivals(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    epoch: AtomicU64,
    /// No row gets an earlier `created_at`, in microseconds.
    floor: AtomicI64,
    /// Looked at by who waits for an epoch's end, and added to when a core starts.
    cores: Mutex<Vec<Arc<Counts>>>,
}

/// Requests of one core that entered in an even epoch, and in an odd one. The core alone writes.
type Counts = CachePadded<[AtomicU64; 2]>;

/// One core's requests under way. It stays on its core's thread, or its counts would be lost.
#[derive(Debug)]
pub struct CoreArrivals {
    shared: Arc<Shared>,
    counts: Arc<Counts>,
}

/// A request under way. While it is kept, the watermark does not pass its rows.
#[derive(Debug)]
pub struct Arrival {
    core: Rc<CoreArrivals>,
    epoch: u64,
    /// When it came, by the clock.
    pub received_at: Micros,
    /// What its rows say: the same, or later where exports have been there.
    pub created_at: Micros,
}

impl Default for Arrivals {
    fn default() -> Self {
        Self::new(None)
    }
}

// === impl Arrivals ===

impl Arrivals {
    /// Nobody, with a floor as the catalog has it.
    #[must_use]
    pub fn new(floor: Option<Micros>) -> Self {
        Self(Arc::new(Shared {
            epoch: AtomicU64::new(0),
            floor: AtomicI64::new(floor.map_or(i64::MIN, |floor| floor.0)),
            cores: Mutex::default(),
        }))
    }

    /// The arrivals of one more core, to be kept by its thread.
    pub(crate) fn of_core(&self) -> Rc<CoreArrivals> {
        let counts = Arc::<Counts>::default();
        // A core that comes while an epoch's end is waited for sees the new epoch: the lock orders it.
        self.cores().push(Arc::clone(&counts));
        Rc::new(CoreArrivals {
            shared: Arc::clone(&self.0),
            counts,
        })
    }

    /// From the next epoch on no row is older than this. It never falls.
    pub fn raise_floor(&self, to: Micros) {
        self.0.floor.fetch_max(to.0, Ordering::SeqCst);
    }

    /// No row will be older than this that is made in this epoch.
    #[must_use]
    pub fn floor(&self) -> Option<Micros> {
        let floor = self.0.floor.load(Ordering::SeqCst);
        (floor != i64::MIN).then_some(Micros(floor))
    }

    /// The present epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::SeqCst)
    }

    /// Begins a new epoch and returns the old one, whose end must be waited for before the next call.
    pub(super) fn next_epoch(&self) -> u64 {
        self.0.epoch.fetch_add(1, Ordering::SeqCst)
    }

    /// Whether nobody is left who entered in this epoch, which is the last but one at the most.
    pub(super) fn is_over(&self, epoch: u64) -> bool {
        let left = |counts: &Arc<Counts>| of_epoch(counts, epoch).load(Ordering::SeqCst) > 0;
        !self.cores().iter().any(left)
    }

    fn cores(&self) -> MutexGuard<'_, Vec<Arc<Counts>>> {
        // A list that somebody panicked over is still a list.
        self.0.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of_epoch(counts: &Counts, epoch: u64) -> &AtomicU64 {
    let [even, odd] = &**counts;
    if epoch.is_multiple_of(2) { even } else { odd }
}

// === impl CoreArrivals ===

impl CoreArrivals {
    /// A request comes; the floor is looked at after it counts.
    #[must_use]
    pub fn enter(self: &Rc<Self>, clock: &dyn Clock) -> Arrival {
        let epoch = loop {
            let epoch = self.epoch();
            self.begin(epoch);
            if self.epoch() == epoch {
                break epoch;
            }
            self.end(epoch);
        };
        let received_at = clock.now();
        Arrival {
            core: Rc::clone(self),
            epoch,
            received_at,
            created_at: self.not_before_floor(received_at),
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.shared.epoch.load(Ordering::SeqCst)
    }

    pub(super) fn begin(&self, epoch: u64) {
        of_epoch(&self.counts, epoch).fetch_add(1, Ordering::SeqCst);
    }

    /// Nobody else writes the count, so it takes no locked instruction. Whoever sees it at zero sees
    /// what the request did before.
    pub(super) fn end(&self, epoch: u64) {
        let count = of_epoch(&self.counts, epoch);
        let others = count.load(Ordering::Relaxed).saturating_sub(1);
        count.store(others, Ordering::Release);
    }

    pub(super) fn not_before_floor(&self, now: Micros) -> Micros {
        Micros(now.0.max(self.shared.floor.load(Ordering::Relaxed)))
    }
}

// === impl Arrival ===

impl Drop for Arrival {
    fn drop(&mut self) {
        self.core.end(self.epoch);
    }
}
