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
        self.insert(lane, flow, request, |_| true);
    }

    /// Queues a request among others of its flow; those that go `before` it are the first of them.
    pub fn insert(&mut self, lane: Lane, flow: Flow, request: R, before: impl FnMut(&R) -> bool) {
        let queue = self.flows.entry((lane, flow)).or_default();
        if queue.requests.is_empty() {
            self.order.push_back((lane, flow));
        }
        queue.bytes += request.held_bytes();
        let index = queue.requests.partition_point(before);
        queue.requests.insert(index, request);
    }

    /// Returns true if requests of another flow wait.
    pub fn has_others(&self, lane: Lane, flow: Flow) -> bool {
        self.order.iter().any(|name| *name != (lane, flow))
    }

    /// Takes out the next request that has capacity, by its lane and flow.
    pub fn next(&mut self, has_capacity: &impl Fn(Lane, Flow) -> bool) -> Option<R> {
        let (mut held_up, mut looked_at) = (0, 0);
        while held_up < self.order.len() {
            if looked_at == self.order.len() {
                self.skip_rounds(has_capacity);
            }
            looked_at += 1;
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

    /// Gives flows their quanta of all rounds in which none of them is served. One by one, those
    /// for a hundred megabytes of each would keep a core busy for long.
    fn skip_rounds(&mut self, has_capacity: &impl Fn(Lane, Flow) -> bool) {
        let queues = self.flows.iter_mut();
        let queues = queues.filter(|((lane, flow), _)| has_capacity(*lane, *flow));
        let mut queues: Vec<_> = queues.map(|(_, queue)| queue).collect();
        let rounds = queues.iter().filter_map(|queue| queue.rounds_left()).min();
        let bytes = rounds.unwrap_or(0).saturating_mul(QUANTUM_BYTES);
        for queue in &mut queues {
            queue.deficit = queue.deficit.saturating_add(bytes);
        }
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

// === impl FlowQueue ===

impl<R: Queued> FlowQueue<R> {
    /// Number of quanta that the flow lacks for its next request.
    fn rounds_left(&self) -> Option<usize> {
        let turn_bytes = self.requests.front()?.turn_bytes();
        let lacking = turn_bytes.saturating_sub(self.deficit);
        Some(lacking.div_ceil(QUANTUM_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    impl Queued for usize {
        fn turn_bytes(&self) -> usize {
            *self
        }
    }

    /// Flows in their order, each with its deficit and its requests.
    type Model = VecDeque<(u64, usize, VecDeque<usize>)>;

    /// Takes out the next request, where flows get their quanta one by one.
    fn next_by_steps(model: &mut Model, held_up: u64) -> Option<usize> {
        if model.iter().all(|(flow, ..)| *flow == held_up) {
            return None;
        }
        loop {
            let alone = model.len() == 1;
            let (flow, deficit, requests) = model.front_mut()?;
            let bytes = *requests.front()?;
            if *flow != held_up {
                if alone || bytes <= *deficit {
                    *deficit = deficit.saturating_sub(bytes);
                    requests.pop_front();
                    if requests.is_empty() {
                        model.pop_front();
                    }
                    return Some(bytes);
                }
                *deficit += QUANTUM_BYTES;
            }
            model.rotate_left(1);
        }
    }

    proptest! {
        #[test]
        fn requests_are_served_in_the_order_of_single_steps(
            steps in prop::collection::vec(
                (0..5_u64, prop::option::of(1..3_000_000_usize)),
                1..200,
            ),
        ) {
            let (mut waiting, mut model) = (DeficitRoundRobin::<usize>::default(), Model::new());
            for (flow, pushed) in steps {
                if let Some(bytes) = pushed {
                    waiting.push(Lane::Live, Flow(flow), bytes);
                    match model.iter_mut().find(|it| it.0 == flow) {
                        Some((.., requests)) => requests.push_back(bytes),
                        None => model.push_back((flow, 0, VecDeque::from([bytes]))),
                    }
                } else {
                    // This flow is held up.
                    let has_capacity = |_: Lane, other: Flow| other != Flow(flow);
                    let served = waiting.next(&has_capacity);
                    prop_assert_eq!(served, next_by_steps(&mut model, flow));
                }
            }
        }
    }

    #[test]
    fn large_requests_of_many_flows_take_few_steps() {
        const FLOWS: u64 = 1_000;
        let mut waiting = DeficitRoundRobin::<usize>::default();
        for flow in 0..FLOWS {
            waiting.push(Lane::Live, Flow(flow), 100 << 20);
        }
        let steps = Cell::new(0);
        let has_capacity = |_: Lane, _: Flow| {
            steps.set(steps.get() + 1);
            true
        };
        for _ in 0..FLOWS {
            assert_eq!(waiting.next(&has_capacity), Some(100 << 20));
        }
        assert!(steps.get() < 4 * FLOWS, "{}", steps.get());
    }
}
