//! Deficit round robin over the flows that wait for the same.

use super::flow::Flow;
use millrace_rows::Lane;
use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};

/// Bytes that a flow is served before the next one has its turn.
pub const QUANTUM_BYTES: usize = 64 << 10;

/// Request that waits for its turn.
pub trait Queued {
    /// Bytes by which its flow takes turns; 0 would be a turn without an end.
    fn turn_bytes(&self) -> usize;

    /// Bytes that the request holds of the queue's capacity.
    fn held_bytes(&self) -> usize {
        self.turn_bytes()
    }
}

/// Requests by flow, and the order of the flows.
#[derive(Debug)]
pub struct DeficitRoundRobin<R> {
    /// Flows in the order of their turns; each is a key of `flows`.
    order: VecDeque<(Lane, Flow)>,
    flows: HashMap<(Lane, Flow), FlowQueue<R>>,
}

#[derive(Debug)]
struct FlowQueue<R> {
    requests: VecDeque<R>,
    bytes: usize,
    /// Bytes that the flow may be served in this turn.
    deficit: usize,
}

// === impl DeficitRoundRobin ===

impl<R> Default for DeficitRoundRobin<R> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            flows: HashMap::new(),
        }
    }
}

impl<R> Default for FlowQueue<R> {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            bytes: 0,
            deficit: 0,
        }
    }
}

impl<R: Queued> DeficitRoundRobin<R> {
    /// Returns true if no request waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of requests that wait.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.flows.values().map(|queue| queue.requests.len()).sum()
    }

    /// Bytes that this flow has waiting, and the number of flows with it.
    pub fn shares(&self, lane: Lane, flow: Flow) -> (usize, usize) {
        let own = self.flows.get(&(lane, flow));
        let flows = self.flows.len() + usize::from(own.is_none());
        (own.map_or(0, |queue| queue.bytes), flows)
    }

    /// Queues a request behind others of its flow.
    pub fn push(&mut self, lane: Lane, flow: Flow, request: R) {
        let queue = self.flows.entry((lane, flow)).or_default();
        if queue.requests.is_empty() {
            self.order.push_back((lane, flow));
        }
        queue.bytes += request.held_bytes();
        queue.requests.push_back(request);
    }

    /// Takes out the next request that has capacity, by its lane and flow.
    pub fn next(&mut self, has_capacity: &impl Fn(Lane, Flow) -> bool) -> Option<R> {
        let mut held_up = 0;
        while held_up < self.order.len() {
            let name = *self.order.front()?;
            let alone = self.order.len() == 1;
            let queue = self.flows.get_mut(&name)?;
            let next = queue.requests.front()?;
            if !has_capacity(name.0, name.1) {
                held_up += 1;
                self.order.rotate_left(1);
                continue;
            }
            let turn_bytes = next.turn_bytes();
            if !alone && turn_bytes > queue.deficit {
                queue.deficit += QUANTUM_BYTES;
                held_up = 0;
                self.order.rotate_left(1);
                continue;
            }
            queue.deficit = queue.deficit.saturating_sub(turn_bytes);
            queue.bytes -= next.held_bytes();
            let request = queue.requests.pop_front();
            if queue.requests.is_empty() {
                self.flows.remove(&name);
                self.order.pop_front();
            }
            return request;
        }
        None
    }

    /// Takes out a request that waits no more; its flow is not charged for it. `order` compares a
    /// request with it, in the order in which they were queued.
    pub fn remove(
        &mut self,
        lane: Lane,
        flow: Flow,
        order: impl FnMut(&R) -> Ordering,
    ) -> Option<R> {
        let name = (lane, flow);
        let queue = self.flows.get_mut(&name)?;
        let index = queue.requests.binary_search_by(order).ok()?;
        let request = queue.requests.remove(index)?;
        queue.bytes -= request.held_bytes();
        if queue.requests.is_empty() {
            self.flows.remove(&name);
            self.order.retain(|other| *other != name);
        }
        Some(request)
    }
}
