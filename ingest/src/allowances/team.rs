//! A project that imports, as its requests see it.

use super::refusal::{ImportRefusal, Verdict};
use millrace_pipeline::Admission;
use millrace_rows::{Clock, TeamId};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Requests of one project that wait for the catalog at a time.
const WAITING_MAX: usize = 1_024;

/// What a request that waits is told.
pub type Answer = Result<Admission, ImportRefusal>;

/// A project's slice on this node.
pub struct Team {
    id: TeamId,
    /// Events that may be admitted; admissions that come to nothing go back there.
    purse: Arc<AtomicU64>,
    /// With less than this in the purse it is time for more.
    low: AtomicU64,
    /// Whether the keeper was told so.
    is_low: AtomicBool,
    /// Whether events were asked for since the keeper looked.
    is_used: AtomicBool,
    clock: Arc<dyn Clock>,
    /// When events were last taken out of the purse to be used, by that clock.
    used_at: AtomicI64,
    /// Touched only where the purse does not do.
    slow: Mutex<Slow>,
}

#[derive(Debug, Default)]
struct Slow {
    waiting: VecDeque<Waiting>,
    verdict: Option<Verdict>,
}

#[derive(Debug)]
struct Waiting {
    events: u64,
    reply: oneshot::Sender<Answer>,
}

/// What those who wait want, in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub sum: u64,
    pub least: u64,
    /// How many wait.
    pub requests: usize,
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Team")
            .field("id", &self.id)
            .field("purse", &self.purse)
            .finish_non_exhaustive()
    }
}

impl Team {
    pub fn new(id: TeamId, clock: Arc<dyn Clock>) -> Self {
        Self {
            id,
            purse: Arc::default(),
            low: AtomicU64::default(),
            is_low: AtomicBool::default(),
            is_used: AtomicBool::default(),
            used_at: AtomicI64::new(clock.now().0),
            clock,
            slow: Mutex::default(),
        }
    }

    pub const fn id(&self) -> TeamId {
        self.id
    }

    /// Takes events out of the purse, all or none.
    pub fn take(&self, events: u64) -> Option<Admission> {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.take_out(events)
            .then(|| Admission::new(self.id, events, Arc::clone(&self.purse)))
    }

    /// Whether it is time for more; true once, until the keeper has looked.
    pub fn runs_low(&self) -> bool {
        self.purse.load(Ordering::Relaxed) < self.low.load(Ordering::Relaxed)
            && !self.is_low.swap(true, Ordering::Relaxed)
    }

    /// What is known already of why these events cannot come.
    pub fn refusal(&self, events: u64) -> Option<ImportRefusal> {
        let verdict = self.lock().verdict.filter(Verdict::is_fresh)?;
        verdict.refusal(events, self.available())
    }

    /// Queues up for events.
    pub fn wait(&self, events: u64) -> Result<oneshot::Receiver<Answer>, ImportRefusal> {
        let (reply, answer) = oneshot::channel();
        let mut slow = self.lock();
        if slow.waiting.len() >= WAITING_MAX {
            return Err(ImportRefusal::Unavailable);
        }
        slow.waiting.push_back(Waiting { events, reply });
        Ok(answer)
    }

    /// Events in the purse.
    pub fn available(&self) -> u64 {
        self.purse.load(Ordering::Acquire)
    }

    /// Puts events into the purse.
    pub fn put(&self, events: u64) {
        self.purse.fetch_add(events, Ordering::AcqRel);
    }

    /// Takes what there is of so many events out of the purse.
    pub fn take_back(&self, events_max: u64) -> u64 {
        let taken = self
            .purse
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                Some(there.saturating_sub(events_max))
            });
        taken.unwrap_or_default().min(events_max)
    }

    /// For how long nobody took any out to use them, in microseconds. To be asked after what was
    /// counted.
    pub fn unused_micros(&self) -> i64 {
        let used_at = self.used_at.load(Ordering::Acquire);
        self.clock.now().0.saturating_sub(used_at)
    }

    /// Whether events were asked for since the last call.
    pub fn was_used(&self) -> bool {
        self.is_used.swap(false, Ordering::Relaxed)
    }

    /// From what level on more is asked for, and that the last call for it was heard.
    pub fn set_low(&self, low: u64) {
        self.low.store(low, Ordering::Relaxed);
        self.is_low.store(false, Ordering::Relaxed);
    }

    /// Lets in who waits, in their order, as far as the purse does, and answers nobody else.
    /// Those who went away are forgotten.
    pub fn serve(&self) -> Wanted {
        let mut slow = self.lock();
        slow.waiting.retain(|waiting| !waiting.reply.is_closed());
        while let Some(first) = slow.waiting.pop_front() {
            match self.take(first.events) {
                // Whoever went away at this moment drops the admission.
                Some(admission) => drop(first.reply.send(Ok(admission))),
                None => {
                    slow.waiting.push_front(first);
                    break;
                }
            }
        }
        let events = slow.waiting.iter().map(|waiting| waiting.events);
        Wanted {
            sum: events.clone().fold(0, u64::saturating_add),
            least: events.min().unwrap_or_default(),
            requests: slow.waiting.len(),
        }
    }

    /// Takes note of what the catalog said, and answers those first in the queue, for whom it was asked.
    /// True if it has to be asked again, as others took what was given for them.
    pub fn judge(&self, verdict: Verdict, asked: usize) -> bool {
        let mut slow = self.lock();
        slow.verdict = Some(verdict);
        let asked = asked.min(slow.waiting.len());
        let answered: Vec<Waiting> = slow.waiting.drain(..asked).collect();
        drop(slow);
        let mut overtaken = VecDeque::new();
        for waiting in answered {
            let events = waiting.events;
            let answer = match self.take(events) {
                Some(admission) => Ok(admission),
                None => match verdict.refusal(events, self.available()) {
                    Some(refusal) => Err(refusal),
                    None => {
                        overtaken.push_back(waiting);
                        continue;
                    }
                },
            };
            // Whoever went away drops the admission.
            let _ = waiting.reply.send(answer);
        }
        let asks_again = !overtaken.is_empty();
        if asks_again {
            let mut slow = self.lock();
            overtaken.append(&mut slow.waiting);
            slow.waiting = overtaken;
        }
        asks_again
    }

    /// Sends everyone away.
    pub fn turn_away(&self) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for Waiting { reply, .. } in waiting {
            let _ = reply.send(Err(ImportRefusal::Unavailable));
        }
    }

    fn take_out(&self, events: u64) -> bool {
        let taken = self
            .purse
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |there| {
                there.checked_sub(events)
            });
        if taken.is_ok() {
            self.used_at.store(self.clock.now().0, Ordering::Release);
        }
        taken.is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
