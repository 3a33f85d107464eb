//! Who is next on a core: projects take turns, and none holds more of the queue than its share.
//!
//! A core is one thread, and whoever sends a hundred times as much as another would be ninety-nine
//! hundredths of what the other waits for. So requests whose bodies are there, and which are about
//! to cost the core something, queue up by *flow*, which is their project as far as it is known by
//! then, and flows are served in turn, by bytes (deficit round robin). What the commit thread has
//! not caught up with holds the queue up, so that waiting happens here, where it is fair, and not
//! behind others' groups.
//!
//! Who is told to come again later, before the body is read where the flow is known by then:
//!
//! - when half of the room is taken, historical requests, and flows that hold some and would hold
//!   more than their part of that half (all whose project is not known have one part together);
//! - when all of it is taken, everyone;
//! - whose turn does not come within ten seconds.
//!
//! As long as the core keeps up, or serves one flow only, nobody queues: a request asks a few
//! cells of its own core.

mod waiting;

use millrace_rows::Lane;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use waiting::{Request, Waiting};

/// Bytes that are let go at once, before new arrivals are looked at.
const ROUND_BYTES: usize = 256 << 10;
/// Requests likewise.
const ROUND_REQUESTS: usize = 32;
/// Requests that may be under way without queueing, however many flows there are.
const INSIDE_FREE: usize = 4;
/// What a request is counted for beside its bytes: its head has to be read, and answered, however
/// small it is. None is counted for nothing, or its flow would have a turn without an end.
pub const REQUEST_BYTES: usize = 4 << 10;
/// How long a turn is waited for. Only a commit thread that stands still, as its disk does, lets it
/// come to that: the room is bounded in bytes.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// For so many requests of one flow it is remembered that there was another one.
const MIXED_REQUESTS: u32 = 4_096;

/// Whose requests take turns with others': a project, by its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow(u64);

impl Flow {
    /// All whose project is not known before their body is parsed.
    pub const UNKNOWN: Self = Self(0);

    /// The flow of a project's key: its last bytes, which are its most random.
    pub fn of_key(key: &[u8]) -> Self {
        let tail = key.iter().rev().take(8);
        Self(tail.fold(0, |tail, byte| tail << 8 | u64::from(*byte)))
    }
}

/// The queue has no room for this request: come again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// For no historical one.
    Historical,
    /// For no further one of this flow.
    Flow,
    /// For none.
    All,
}

/// One core's queue.
#[derive(Debug)]
pub struct Turns {
    waiting: RefCell<Waiting>,
    waiting_bytes: Cell<usize>,
    bytes_max: usize,
    /// Requests that have had their turn and are not answered.
    inside: Cell<usize>,
    last: Cell<Option<Flow>>,
    mixed: Cell<u32>,
    changed: Notify,
}

/// A request's turn; the next is looked for when it is dropped.
#[derive(Debug)]
pub struct Turn(Rc<Turns>);

// === impl Turns ===

impl Turns {
    /// An empty queue with room for so many bytes of bodies.
    pub fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            waiting: RefCell::default(),
            waiting_bytes: Cell::new(0),
            bytes_max,
            inside: Cell::new(0),
            last: Cell::new(None),
            mixed: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Whether a request of so many bytes may queue up; `None` is a flow that is not known yet.
    ///
    /// # Errors
    /// It had better come again later.
    pub fn admit(&self, lane: Lane, flow: Option<Flow>, bytes: usize) -> Result<(), Shed> {
        let waiting_bytes = self.waiting_bytes.get();
        // One that is larger than all of the room gets in when it is alone.
        if waiting_bytes == 0 {
            return Ok(());
        }
        let after = waiting_bytes.saturating_add(bytes);
        if after > self.bytes_max {
            return Err(Shed::All);
        }
        let half = self.bytes_max / 2;
        if after <= half {
            return Ok(());
        }
        if lane == Lane::Historical {
            return Err(Shed::Historical);
        }
        let Some(flow) = flow else { return Ok(()) };
        let (held, flows) = self.waiting.borrow().shares(lane, flow);
        // They are many projects, whose bodies do not begin with a key or are compressed.
        let flows = if flow == Flow::UNKNOWN { 1 } else { flows };
        if held > 0 && held.saturating_add(bytes) > half / flows.max(1) {
            return Err(Shed::Flow);
        }
        Ok(())
    }

    /// Waits for this request's turn; `None` if it does not come in time. `has_room` says whether
    /// what comes after has room for more.
    pub async fn wait(
        self: &Rc<Self>,
        lane: Lane,
        flow: Flow,
        bytes: usize,
        has_room: bool,
    ) -> Option<Turn> {
        if self.passes(flow) && has_room {
            return Some(self.turn());
        }
        let (go, gone) = oneshot::channel();
        self.push(lane, flow, Request { bytes, go });
        self.changed.notify_one();
        // Requests are let go of only by being served.
        timeout(WAIT_MAX, gone).await.ok()?.ok()
    }

    /// Serves those that wait; never ends. `has_room` is asked per lane; `blocked` is awaited when
    /// nobody can be served though somebody waits.
    pub async fn serve<F: Future<Output = ()>>(
        self: Rc<Self>,
        has_room: impl Fn(Lane) -> bool,
        blocked: impl Fn() -> F,
    ) {
        loop {
            if self.waiting_bytes.get() == 0 && self.waiting.borrow().is_empty() {
                self.changed.notified().await;
            } else if self.round(&has_room) {
                // To the end of the queue of tasks: whoever has come meanwhile lines up first.
                tokio::task::yield_now().await;
            } else {
                blocked().await;
            }
        }
    }

    /// Bytes that wait.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.get()
    }

    /// Whether projects compete, so that it matters whose a request is.
    pub fn is_contended(&self) -> bool {
        self.mixed.get() > 0
            && (self.inside.get() >= INSIDE_FREE || !self.waiting.borrow().is_empty())
    }

    /// Whether so much waits that some may have to be sent away.
    pub fn is_crowded(&self) -> bool {
        self.waiting_bytes.get() > self.bytes_max / 4
    }

    /// Whether nobody would gain by this one's queueing up.
    fn passes(&self, flow: Flow) -> bool {
        let mixed = match self.last.replace(Some(flow)) {
            Some(last) if last != flow => MIXED_REQUESTS,
            _ => self.mixed.get().saturating_sub(1),
        };
        self.mixed.set(mixed);
        let few = mixed == 0 || self.inside.get() < INSIDE_FREE;
        few && self.waiting.borrow().is_empty()
    }

    fn turn(self: &Rc<Self>) -> Turn {
        self.inside.set(self.inside.get() + 1);
        Turn(Rc::clone(self))
    }

    fn push(&self, lane: Lane, flow: Flow, request: Request) {
        let bytes = self.waiting_bytes.get() + request.bytes;
        self.waiting_bytes.set(bytes);
        self.waiting.borrow_mut().push(lane, flow, request);
    }

    /// Lets some go; `false` if nobody could.
    fn round(self: &Rc<Self>, has_room: &impl Fn(Lane) -> bool) -> bool {
        let (mut requests, mut bytes) = (0, 0);
        while requests < ROUND_REQUESTS && bytes < ROUND_BYTES {
            let next = self.waiting.borrow_mut().next(has_room);
            let Some(request) = next else { break };
            self.waiting_bytes
                .set(self.waiting_bytes.get() - request.bytes);
            requests += 1;
            bytes += request.bytes;
            // Who went away, or waits no more, has a turn all the same, and gives it back at once.
            drop(request.go.send(self.turn()));
        }
        requests > 0
    }
}

// === impl Turn ===

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.inside.set(self.0.inside.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
