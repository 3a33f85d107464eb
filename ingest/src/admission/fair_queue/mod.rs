//! Fair queue of one core: projects take turns, and none holds more of the queue than its share.
//!
//! A core is one thread, and a project that sends a hundred times as much as another would be
//! ninety-nine hundredths of what the other waits for. So requests whose bodies are there, and
//! which are about to cost the core something, queue up by *flow*, which is their project as far as
//! it is known by then, and flows are served in turn, by bytes (deficit round robin). The queue
//! stops while the commit thread is behind, so that requests wait here, where it is fair, and not
//! behind other projects' groups.
//!
//! Requests that are rejected, and may retry later, before the body is read where the flow is known
//! by then:
//!
//! - once half of the capacity is taken: historical requests, and those of flows that hold some and
//!   would hold more than their part of that half (all whose project is not known have one part
//!   together);
//! - once all of it is taken: every request;
//! - after ten seconds: requests that were not served.
//!
//! As long as the core keeps up, or serves one flow only, no request queues: each asks a few cells
//! of its own core. Long requests queue nevertheless once the core has had half a megabyte of such
//! since it last looked for new requests: some hundred bytes may decode to as much, and two dozen
//! such requests in one go would keep all others waiting for a quarter of a second. Until a body is
//! decoded it counts as all that it may decode to, as one that fails, or is too large, has cost
//! that. From the queue long requests are served one by one, and others in between.

mod cost;

pub use cost::{Cost, REQUEST_BYTES};

use crate::scheduling::deficit_round_robin::{DeficitRoundRobin, Queued};
use crate::scheduling::flow::Flow;
use millrace_rows::Lane;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;

/// Bytes that a core may have to deal with at once, before new requests are looked at.
const ROUND_BYTES: usize = 256 << 10;
/// Bytes of long requests that a core may deal with before it looks for new requests: 10 ms at
/// worst, and as much again for the last one.
const LONG_ROUND_BYTES: usize = 512 << 10;
/// Requests that are served at once, before new ones are looked at.
const ROUND_REQUESTS: usize = 32;
/// Requests in service up to which further ones bypass the queue, however many flows there are.
const BYPASS_MAX: usize = 4;
/// Time that a request waits for its permit. It takes a commit thread that stands still, as its
/// disk does, or a hundred projects at a time whose bodies decode to far more than usual: the
/// capacity is bounded in bytes.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Requests of one flow for which it is remembered that there was another one.
const CONTENDED_REQUESTS: u32 = 4_096;

/// Reason why a request is shed: the queue has no capacity for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shed {
    /// No capacity for historical requests.
    Historical,
    /// No capacity for further requests of this flow.
    Flow,
    /// No capacity for any request.
    All,
}

/// Fair queue of one core.
#[derive(Debug)]
pub struct FairQueue {
    waiting: RefCell<DeficitRoundRobin<QueuedRequest>>,
    waiting_bytes: Cell<usize>,
    bytes_max: usize,
    /// Requests that have a permit and are not answered.
    in_service: Cell<usize>,
    /// Bytes of long requests that the core has dealt with since it last looked for new requests.
    long_bytes: Cell<usize>,
    /// Number of times that it has looked.
    looks: Cell<u64>,
    last: Cell<Option<Flow>>,
    contended: Cell<u32>,
    changed: Notify,
}

/// Request that waits for its permit.
#[derive(Debug)]
struct QueuedRequest {
    cost: Cost,
    grant: oneshot::Sender<Permit>,
}

/// Permit of a request in service; it is given back when dropped.
#[derive(Debug)]
pub struct Permit {
    queue: Rc<FairQueue>,
    /// Bytes that the request counts for; 0 for one that is not long.
    long_bytes: usize,
    /// The queue's `looks` when they were counted.
    look: u64,
}

// === impl FairQueue ===

impl FairQueue {
    /// Returns an empty queue with capacity for so many bytes of bodies.
    pub fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            waiting: RefCell::default(),
            waiting_bytes: Cell::new(0),
            bytes_max,
            in_service: Cell::new(0),
            long_bytes: Cell::new(0),
            looks: Cell::new(0),
            last: Cell::new(None),
            contended: Cell::new(0),
            changed: Notify::new(),
        })
    }

    /// Admits a request of so many bytes to the queue, if there is capacity; `None` is a flow that
    /// is not known yet.
    ///
    /// # Errors
    /// Reason why the request is shed; it may retry later.
    pub fn admit(&self, lane: Lane, flow: Option<Flow>, bytes: usize) -> Result<(), Shed> {
        let waiting_bytes = self.waiting_bytes.get();
        // One that is larger than the whole capacity is admitted when it is alone.
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
        // Unknown flows are many projects, whose bodies do not begin with a key or are compressed.
        let flows = if flow == Flow::UNKNOWN { 1 } else { flows };
        if held > 0 && held.saturating_add(bytes) > half / flows.max(1) {
            return Err(Shed::Flow);
        }
        Ok(())
    }

    /// Waits for this request's permit; `None` if it does not come in time. `has_capacity` says
    /// whether the commit thread keeps up.
    pub async fn acquire(
        self: &Rc<Self>,
        lane: Lane,
        flow: Flow,
        cost: Cost,
        has_capacity: bool,
    ) -> Option<Permit> {
        if self.bypasses_queue(flow, cost) && has_capacity {
            return Some(self.permit(cost));
        }
        let (grant, granted) = oneshot::channel();
        self.push(lane, flow, QueuedRequest { cost, grant });
        self.changed.notify_one();
        // Requests leave the queue only by being served.
        timeout(WAIT_MAX, granted).await.ok()?.ok()
    }

    /// Serves requests that wait; never ends. `has_capacity` is asked per lane; `blocked` is
    /// awaited when none can be served though some wait.
    pub async fn serve<F: Future<Output = ()>>(
        self: Rc<Self>,
        has_capacity: impl Fn(Lane) -> bool,
        blocked: impl Fn() -> F,
    ) {
        loop {
            let is_empty = self.waiting_bytes.get() == 0 && self.waiting.borrow().is_empty();
            if is_empty && self.long_bytes.get() == 0 {
                self.changed.notified().await;
            } else if is_empty || self.serve_round(&has_capacity) {
                // To the end of the queue of tasks: requests that came meanwhile queue up first.
                tokio::task::yield_now().await;
                self.long_bytes.set(0);
                self.looks.set(self.looks.get().wrapping_add(1));
            } else {
                blocked().await;
            }
        }
    }

    /// Bytes that wait in the queue.
    #[cfg(test)]
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.get()
    }

    /// Returns true if projects compete, so that the flow of a request matters.
    pub fn is_contended(&self) -> bool {
        self.contended.get() > 0
            && (self.in_service.get() >= BYPASS_MAX || !self.waiting.borrow().is_empty())
    }

    /// Returns true if so much waits that requests may have to be rejected.
    pub fn is_overloaded(&self) -> bool {
        self.waiting_bytes.get() > self.bytes_max / 4
    }

    /// Returns true if no other flow would gain by this one's queueing up.
    fn bypasses_queue(&self, flow: Flow, cost: Cost) -> bool {
        let contended = match self.last.replace(Some(flow)) {
            Some(last) if last != flow => CONTENDED_REQUESTS,
            _ => self.contended.get().saturating_sub(1),
        };
        self.contended.set(contended);
        let few = contended == 0 || self.in_service.get() < BYPASS_MAX;
        let may_be_long = !cost.is_long() || self.long_bytes.get() < LONG_ROUND_BYTES;
        few && may_be_long && self.waiting.borrow().is_empty()
    }

    fn permit(self: &Rc<Self>, cost: Cost) -> Permit {
        self.in_service.set(self.in_service.get() + 1);
        let long_bytes = if cost.is_long() {
            cost.core_bytes_max
        } else {
            0
        };
        self.count_long(long_bytes);
        Permit {
            queue: Rc::clone(self),
            long_bytes,
            look: self.looks.get(),
        }
    }

    fn count_long(&self, bytes: usize) {
        let before = self.long_bytes.get();
        self.long_bytes.set(before.saturating_add(bytes));
        if before == 0 && bytes > 0 {
            // It is set back once the core has looked for new requests.
            self.changed.notify_one();
        }
    }

    fn push(&self, lane: Lane, flow: Flow, request: QueuedRequest) {
        let bytes = self.waiting_bytes.get() + request.cost.held_bytes;
        self.waiting_bytes.set(bytes);
        self.waiting.borrow_mut().push(lane, flow, request);
    }

    /// Serves some requests; returns `false` if none could be.
    fn serve_round(self: &Rc<Self>, has_capacity: &impl Fn(Lane) -> bool) -> bool {
        let has_capacity = |lane: Lane, _: Flow| has_capacity(lane);
        let (mut requests, mut bytes) = (0, 0);
        while requests < ROUND_REQUESTS && bytes < ROUND_BYTES {
            let next = self.waiting.borrow_mut().next(&has_capacity);
            let Some(request) = next else { break };
            self.waiting_bytes
                .set(self.waiting_bytes.get() - request.cost.held_bytes);
            requests += 1;
            bytes += request.cost.core_bytes_max;
            // A client that went away, or waits no more, gets a permit all the same, and gives it
            // back at once.
            drop(request.grant.send(self.permit(request.cost)));
        }
        requests > 0
    }
}

// === impl QueuedRequest ===

impl Queued for QueuedRequest {
    fn turn_bytes(&self) -> usize {
        self.cost.turn_bytes
    }

    fn held_bytes(&self) -> usize {
        self.cost.held_bytes
    }
}

// === impl Permit ===

impl Permit {
    /// Notes the bytes of the body once it is decoded, which count from then on in place of all
    /// that it might have decoded to; what is not long is not counted.
    pub fn note_decoded(&self, bytes: usize) {
        if self.long_bytes == 0 {
            return;
        }
        let queue = &self.queue;
        if self.look == queue.looks.get() {
            let others = queue.long_bytes.get().saturating_sub(self.long_bytes);
            queue.long_bytes.set(others.saturating_add(bytes));
        } else {
            // Decoded beside the core, which has looked since.
            queue.count_long(bytes);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let in_service = &self.queue.in_service;
        in_service.set(in_service.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests;
