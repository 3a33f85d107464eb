//! Who waits on a core, and who of them is next.

use super::{Flow, Turn};
use millrace_rows::Lane;
use std::collections::{HashMap, VecDeque};
use tokio::sync::oneshot;

/// Bytes that a flow is served before the next one has its turn.
pub const QUANTUM_BYTES: usize = 64 << 10;

/// Requests by flow, and the flows in order.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Whose turn it is, in order; each is a key of `flows`.
    order: VecDeque<(Lane, Flow)>,
    flows: HashMap<(Lane, Flow), Queue>,
}

/// One that waits for its turn.
#[derive(Debug)]
pub struct Request {
    pub bytes: usize,
    pub go: oneshot::Sender<Turn>,
}

#[derive(Debug, Default)]
struct Queue {
    requests: VecDeque<Request>,
    bytes: usize,
    /// Bytes that it may be served in this turn.
    credit: usize,
}

// === impl Waiting ===

impl Waiting {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes that this flow has waiting, and how many flows there are with it.
    pub fn shares(&self, lane: Lane, flow: Flow) -> (usize, usize) {
        let own = self.flows.get(&(lane, flow));
        let flows = self.flows.len() + usize::from(own.is_none());
        (own.map_or(0, |queue| queue.bytes), flows)
    }

    /// Lines a request up behind others of its flow.
    pub fn push(&mut self, lane: Lane, flow: Flow, request: Request) {
        let queue = self.flows.entry((lane, flow)).or_default();
        if queue.requests.is_empty() {
            self.order.push_back((lane, flow));
        }
        queue.bytes += request.bytes;
        queue.requests.push_back(request);
    }

    /// Takes out the request that is next.
    pub fn next(&mut self, has_room: &impl Fn(Lane) -> bool) -> Option<Request> {
        let mut held_up = 0;
        while held_up < self.order.len() {
            let name = *self.order.front()?;
            let alone = self.order.len() == 1;
            let queue = self.flows.get_mut(&name)?;
            let bytes = queue.requests.front()?.bytes;
            if !has_room(name.0) {
                held_up += 1;
                self.order.rotate_left(1);
                continue;
            }
            if !alone && bytes > queue.credit {
                queue.credit += QUANTUM_BYTES;
                held_up = 0;
                self.order.rotate_left(1);
                continue;
            }
            queue.credit = queue.credit.saturating_sub(bytes);
            queue.bytes -= bytes;
            let request = queue.requests.pop_front();
            if queue.requests.is_empty() {
                self.flows.remove(&name);
                self.order.pop_front();
            }
            return request;
        }
        None
    }
}
