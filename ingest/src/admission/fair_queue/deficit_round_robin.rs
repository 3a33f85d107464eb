//! Deficit round robin over the flows that wait on a core.

use super::cost::Cost;
use super::flow::Flow;
use millrace_rows::Lane;
use std::collections::{HashMap, VecDeque};

/// Bytes that a flow is served before the next one has its turn.
pub const QUANTUM_BYTES: usize = 64 << 10;

/// Requests by flow, and the order of the flows. `G` is how a request is granted its turn.
#[derive(Debug)]
pub struct DeficitRoundRobin<G> {
    /// Flows in the order of their turns; each is a key of `flows`.
    order: VecDeque<(Lane, Flow)>,
    flows: HashMap<(Lane, Flow), FlowQueue<G>>,
}

/// Request that waits for its turn.
#[derive(Debug)]
pub struct QueuedRequest<G> {
    pub cost: Cost,
    pub grant: G,
}

#[derive(Debug)]
struct FlowQueue<G> {
    requests: VecDeque<QueuedRequest<G>>,
    bytes: usize,
    /// Bytes that the flow may be served in this turn.
    deficit: usize,
}

// === impl DeficitRoundRobin ===

impl<G> Default for DeficitRoundRobin<G> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            flows: HashMap::new(),
        }
    }
}

impl<G> Default for FlowQueue<G> {
    fn default() -> Self {
        Self {
            requests: VecDeque::new(),
            bytes: 0,
            deficit: 0,
        }
    }
}

impl<G> DeficitRoundRobin<G> {
    /// Returns true if no request waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Bytes that this flow has waiting, and the number of flows with it.
    pub fn shares(&self, lane: Lane, flow: Flow) -> (usize, usize) {
        let own = self.flows.get(&(lane, flow));
        let flows = self.flows.len() + usize::from(own.is_none());
        (own.map_or(0, |queue| queue.bytes), flows)
    }

    /// Queues a request behind others of its flow.
    pub fn push(&mut self, lane: Lane, flow: Flow, request: QueuedRequest<G>) {
        let queue = self.flows.entry((lane, flow)).or_default();
        if queue.requests.is_empty() {
            self.order.push_back((lane, flow));
        }
        queue.bytes += request.cost.held_bytes;
        queue.requests.push_back(request);
    }

    /// Takes out the next request that has capacity in its lane.
    pub fn next(&mut self, has_capacity: &impl Fn(Lane) -> bool) -> Option<QueuedRequest<G>> {
        let mut held_up = 0;
        while held_up < self.order.len() {
            let name = *self.order.front()?;
            let alone = self.order.len() == 1;
            let queue = self.flows.get_mut(&name)?;
            let cost = queue.requests.front()?.cost;
            if !has_capacity(name.0) {
                held_up += 1;
                self.order.rotate_left(1);
                continue;
            }
            if !alone && cost.turn_bytes > queue.deficit {
                queue.deficit += QUANTUM_BYTES;
                held_up = 0;
                self.order.rotate_left(1);
                continue;
            }
            queue.deficit = queue.deficit.saturating_sub(cost.turn_bytes);
            queue.bytes -= cost.held_bytes;
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
