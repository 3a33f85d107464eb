//! Available tokens of a project that imports, and the requests that wait for more.

use super::refusal::{CatalogDecision, ImportRefusal};
use millrace_pipeline::ImportReservation;
use millrace_rows::{Clock, ProjectId};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Requests of one project that wait for the catalog at a time.
const WAITERS_MAX: usize = 1_024;

/// Answer to a request for tokens.
pub type AdmitResult = Result<ImportReservation, ImportRefusal>;

/// Tokens of a project on this node, one for each event that may be imported.
pub struct ProjectTokens {
    id: ProjectId,
    /// Events that may be admitted; those of admissions that store nothing come back here.
    available: Arc<AtomicU64>,
    /// Level of `available` below which more is asked for.
    refill_level: AtomicU64,
    /// True once the lease renewer was woken for a refill, until it has asked for one.
    is_refill_requested: AtomicBool,
    /// True if events were asked for since the lease renewer last looked.
    is_used: AtomicBool,
    clock: Arc<dyn Clock>,
    /// Time at which tokens were last taken to be used, by `clock`.
    used_at: AtomicI64,
    /// Locked only where the tokens available do not suffice.
    waiters: Mutex<Waiters>,
}

#[derive(Debug, Default)]
struct Waiters {
    queue: VecDeque<Waiter>,
    latest: Option<CatalogDecision>,
}

#[derive(Debug)]
struct Waiter {
    events: u64,
    reply: oneshot::Sender<AdmitResult>,
}

/// Events that waiting requests need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub sum: u64,
    pub least: u64,
    /// Number of requests that wait.
    pub requests: usize,
}

impl fmt::Debug for ProjectTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProjectTokens")
            .field("id", &self.id)
            .field("available", &self.available)
            .finish_non_exhaustive()
    }
}

impl ProjectTokens {
    pub fn new(id: ProjectId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            available: Arc::default(),
            refill_level: AtomicU64::default(),
            is_refill_requested: AtomicBool::default(),
            is_used: AtomicBool::default(),
            used_at: AtomicI64::new(clock.now().0),
            clock,
            waiters: Mutex::default(),
        }
    }

    pub const fn id(&self) -> ProjectId {
        self.id
    }

    /// Takes tokens for all of the events, or none.
    pub fn take(&self, events: u64) -> Option<ImportReservation> {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.try_subtract(events)
            .then(|| ImportReservation::new(self.id, events, Arc::clone(&self.available)))
    }

    /// Returns true if it is time for a refill: once, until the lease renewer has asked for one.
    pub fn needs_refill(&self) -> bool {
        self.available.load(Ordering::Relaxed) < self.refill_level.load(Ordering::Relaxed)
            && !self.is_refill_requested.swap(true, Ordering::Relaxed)
    }

    /// Refusal that the catalog's latest decision implies for these events, while it is fresh.
    pub fn refusal(&self, events: u64) -> Option<ImportRefusal> {
        let latest = self.lock().latest.filter(CatalogDecision::is_fresh)?;
        latest.refusal(events, self.available())
    }

    /// Queues up for events.
    pub fn wait(&self, events: u64) -> Result<oneshot::Receiver<AdmitResult>, ImportRefusal> {
        let (reply, answer) = oneshot::channel();
        let mut waiters = self.lock();
        if waiters.queue.len() >= WAITERS_MAX {
            return Err(ImportRefusal::Unavailable);
        }
        waiters.queue.push_back(Waiter { events, reply });
        Ok(answer)
    }

    /// Events that may be admitted now.
    pub fn available(&self) -> u64 {
        self.available.load(Ordering::Acquire)
    }

    /// Adds tokens for events.
    pub fn add(&self, events: u64) {
        self.available.fetch_add(events, Ordering::AcqRel);
    }

    /// Withdraws at most so many tokens, and returns how many there were.
    pub fn withdraw(&self, events_max: u64) -> u64 {
        let taken = self
            .available
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                Some(there.saturating_sub(events_max))
            });
        taken.unwrap_or_default().min(events_max)
    }

    /// Time since tokens were last taken to be used, in microseconds. To be read after the count
    /// of stored events.
    pub fn unused_micros(&self) -> i64 {
        let used_at = self.used_at.load(Ordering::Acquire);
        self.clock.now().0.saturating_sub(used_at)
    }

    /// Returns true if events were asked for since the last call.
    pub fn was_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// Sets the level below which more is asked for, and notes that the last refill was asked for.
    pub fn set_refill_level(&self, level: u64) {
        self.refill_level.store(level, Ordering::Relaxed);
        self.is_refill_requested.store(false, Ordering::Relaxed);
    }

    /// Admits waiting requests in their order, as far as the tokens go, and refuses none. Requests
    /// whose clients went away are dropped.
    pub fn serve_waiters(&self) -> Demand {
        let mut waiters = self.lock();
        waiters.queue.retain(|waiter| !waiter.reply.is_closed());
        while let Some(first) = waiters.queue.pop_front() {
            match self.take(first.events) {
                // A request that was cancelled at this moment drops its reservation.
                Some(reservation) => drop(first.reply.send(Ok(reservation))),
                None => {
                    waiters.queue.push_front(first);
                    break;
                }
            }
        }
        let events = waiters.queue.iter().map(|waiter| waiter.events);
        Demand {
            sum: events.clone().fold(0, u64::saturating_add),
            least: events.min().unwrap_or_default(),
            requests: waiters.queue.len(),
        }
    }

    /// Notes the catalog's decision, and answers the first `asked` requests of the queue, for which
    /// it was asked. Returns true if it has to be asked again, as others took what was given for
    /// them.
    pub fn answer_waiters(&self, decision: CatalogDecision, asked: usize) -> bool {
        let mut waiters = self.lock();
        waiters.latest = Some(decision);
        let asked = asked.min(waiters.queue.len());
        let answered: Vec<Waiter> = waiters.queue.drain(..asked).collect();
        drop(waiters);
        let mut overtaken = VecDeque::new();
        for waiter in answered {
            let events = waiter.events;
            let answer = match self.take(events) {
                Some(reservation) => Ok(reservation),
                None => match decision.refusal(events, self.available()) {
                    Some(refusal) => Err(refusal),
                    None => {
                        overtaken.push_back(waiter);
                        continue;
                    }
                },
            };
            // A request that was cancelled drops its reservation.
            let _ = waiter.reply.send(answer);
        }
        let asks_again = !overtaken.is_empty();
        if asks_again {
            let mut waiters = self.lock();
            overtaken.append(&mut waiters.queue);
            waiters.queue = overtaken;
        }
        asks_again
    }

    /// Refuses every waiting request.
    pub fn reject_waiters(&self, refusal: ImportRefusal) {
        let queue = std::mem::take(&mut self.lock().queue);
        for Waiter { reply, .. } in queue {
            let _ = reply.send(Err(refusal));
        }
    }

    fn try_subtract(&self, events: u64) -> bool {
        let taken = self
            .available
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                there.checked_sub(events)
            });
        if taken.is_ok() {
            self.used_at.store(self.clock.now().0, Ordering::Release);
        }
        taken.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
