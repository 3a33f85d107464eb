//! Fair queue against a model, and tests of each promise.

use super::*;
use crate::scheduling::deficit_round_robin::QUANTUM_BYTES;
use proptest::prelude::*;

const CAPACITY_BYTES: usize = 4 << 20;
const LANES: [Lane; 2] = [Lane::Live, Lane::Historical];

fn flow(number: u8) -> Flow {
    Flow(u64::from(number) + 1)
}

/// Cost of a body that is not encoded, without its head.
fn plain(bytes: usize) -> Cost {
    Cost {
        held_bytes: bytes,
        turn_bytes: bytes,
        core_bytes_max: bytes,
    }
}

/// Queues a request and returns the receiver of its permit.
fn push(queue: &FairQueue, lane: Lane, flow: Flow, bytes: usize) -> oneshot::Receiver<Permit> {
    let (grant, granted) = oneshot::channel();
    queue.push(
        lane,
        flow,
        QueuedRequest {
            cost: plain(bytes),
            grant,
        },
    );
    granted
}

#[derive(Clone, Debug)]
enum Step {
    /// A request comes; it queues up if it is admitted.
    Come {
        flow: u8,
        historical: bool,
        bytes: usize,
    },
    /// One round, with capacity in the lanes that say so.
    Round { live: bool, historical: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (0..6_u8, any::<bool>(), 1..700_000_usize).prop_map(|(flow, historical, bytes)| {
        Step::Come {
            flow,
            historical,
            bytes,
        }
    });
    let serve_round = (any::<bool>(), any::<bool>())
        .prop_map(|(live, historical)| Step::Round { live, historical });
    let step = prop_oneof![2 => come, 1 => serve_round];
    prop::collection::vec(step, 1..200)
}

/// Request of the model.
struct ModelRequest {
    lane: Lane,
    flow: Flow,
    bytes: usize,
    granted: oneshot::Receiver<Permit>,
}

/// Admission that the table at the head of the module prescribes.
fn expected_admission(
    waiting: &[ModelRequest],
    lane: Lane,
    flow: Flow,
    bytes: usize,
) -> Result<(), Shed> {
    let all: usize = waiting.iter().map(|it| it.bytes).sum();
    let own = |it: &&ModelRequest| (it.lane, it.flow) == (lane, flow);
    let held: usize = waiting.iter().filter(own).map(|it| it.bytes).sum();
    let mut flows: Vec<_> = waiting
        .iter()
        .map(|it| (it.lane.name(), it.flow.0))
        .collect();
    flows.push((lane.name(), flow.0));
    flows.sort_unstable();
    flows.dedup();
    match all {
        0 => Ok(()),
        _ if all + bytes > CAPACITY_BYTES => Err(Shed::All),
        _ if all + bytes <= CAPACITY_BYTES / 2 => Ok(()),
        _ if lane == Lane::Historical => Err(Shed::Historical),
        _ if held > 0 && held + bytes > CAPACITY_BYTES / 2 / flows.len() => Err(Shed::Flow),
        _ => Ok(()),
    }
}

proptest! {
    #[test]
    fn every_admitted_request_is_served_once_and_in_order(steps in steps()) {
        let queue = FairQueue::new(CAPACITY_BYTES);
        let mut model: Vec<ModelRequest> = Vec::new();
        for step in steps {
            match step {
                Step::Come { flow: number, historical, bytes } => {
                    let (lane, flow) = (LANES[usize::from(historical)], flow(number));
                    let admitted = queue.admit(lane, Some(flow), bytes);
                    prop_assert_eq!(admitted, expected_admission(&model, lane, flow, bytes));
                    if admitted.is_ok() {
                        let granted = push(&queue, lane, flow, bytes);
                        model.push(ModelRequest { lane, flow, bytes, granted });
                    }
                }
                Step::Round { live, historical } => {
                    let has_capacity = |lane| if lane == Lane::Live { live } else { historical };
                    let served = queue.serve_round(&has_capacity);
                    let could = model.iter().any(|it| has_capacity(it.lane));
                    prop_assert_eq!(served, could, "somebody is served if anybody can be");
                    let mut still: Vec<(Lane, Flow)> = Vec::new();
                    model.retain_mut(|it| {
                        let granted = it.granted.try_recv().is_ok();
                        // Requests of one flow are served in their order.
                        assert!(!granted || (has_capacity(it.lane) && !still.contains(&(it.lane, it.flow))));
                        if !granted {
                            still.push((it.lane, it.flow));
                        }
                        !granted
                    });
                }
            }
            let all: usize = model.iter().map(|it| it.bytes).sum();
            prop_assert_eq!(queue.waiting_bytes(), all);
            prop_assert!(queue.waiting_bytes() <= CAPACITY_BYTES.max(700_000));
        }
    }

    #[test]
    fn flows_that_all_wait_are_served_alike(
        sizes in prop::collection::hash_set(5_000..300_000_usize, 2..6),
        served in 50..200_usize,
    ) {
        let sizes = Vec::from_iter(sizes);
        let queue = FairQueue::new(usize::MAX);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let mut bytes = vec![0; sizes.len()];
        // Each has more in the queue than it can be served.
        for (number, size) in sizes.iter().enumerate() {
            let flow = flow(u8::try_from(number).unwrap());
            for _ in 0..=served * largest / size {
                drop(push(&queue, Lane::Live, flow, *size));
            }
        }
        for _ in 0..served {
            let request = queue.waiting.borrow_mut().next(&|_, _| true).unwrap();
            bytes[sizes.iter().position(|size| *size == request.cost.turn_bytes).unwrap()] += request.cost.turn_bytes;
        }
        let most = bytes.iter().max().unwrap();
        let least = bytes.iter().min().unwrap();
        prop_assert!(most - least <= 2 * (largest + QUANTUM_BYTES), "{bytes:?} of {sizes:?}");
    }
}

#[test]
fn historical_requests_are_shed_first_then_the_largest_flow_then_all() {
    let queue = FairQueue::new(1_000);
    let mut waiting = Vec::new();
    // Bytes that wait, and who may still queue up with 50 bytes: a flow that has 400 waiting, one
    // that has none, one that is not known, and a historical request.
    let table = [
        (400, [true, true, true, true]),
        (460, [false, true, true, false]),
        (900, [false, true, true, false]),
        (951, [false, false, false, false]),
    ];
    waiting.push(push(&queue, Lane::Live, flow(1), 400));
    for (bytes, expected) in table {
        let more = bytes - queue.waiting_bytes();
        waiting.push(push(&queue, Lane::Live, flow(2), more));
        let admits = |lane, flow| queue.admit(lane, flow, 50).is_ok();
        let got = [
            admits(Lane::Live, Some(flow(1))),
            admits(Lane::Live, Some(flow(3))),
            admits(Lane::Live, None),
            admits(Lane::Historical, Some(flow(4))),
        ];
        assert_eq!(got, expected, "{bytes}");
    }
}

#[test]
fn a_flow_that_holds_nothing_is_admitted_however_many_others_wait() {
    let queue = FairQueue::new(1_000);
    let _waiting: Vec<_> = (0..10)
        .map(|number| push(&queue, Lane::Live, flow(number), 30))
        .collect();
    let admitted = |flow| queue.admit(Lane::Live, Some(flow), 250);
    assert_eq!(admitted(flow(10)), Ok(()));
    assert_eq!(admitted(flow(0)), Err(Shed::Flow));
    let unknown = push(&queue, Lane::Live, Flow::UNKNOWN, 60);
    assert_eq!(admitted(Flow::UNKNOWN), Ok(()), "many projects' share");
    let more = push(&queue, Lane::Live, Flow::UNKNOWN, 341);
    assert_eq!(admitted(Flow::UNKNOWN), Err(Shed::Flow));
    drop((unknown, more));
}

#[test]
fn one_flow_alone_never_queues() {
    let queue = FairQueue::new(CAPACITY_BYTES);
    let held: Vec<_> = (0..100)
        .map(|_| {
            assert!(queue.bypasses_queue(flow(1), plain(10)));
            queue.permit(plain(10))
        })
        .collect();
    assert!(
        !queue.bypasses_queue(flow(2), plain(10)),
        "the core is busy"
    );
    assert!(
        !queue.bypasses_queue(flow(1), plain(10)),
        "now it is not alone"
    );
    drop(held);
    assert!(queue.bypasses_queue(flow(2), plain(10)), "the core is idle");
}

/// Cost of a request that may keep the core busy for long.
fn long() -> Cost {
    Cost::encoded(12 << 10, 512 << 10)
}

#[test]
fn long_requests_bypass_the_queue_until_the_core_has_had_half_a_megabyte_of_them() {
    let queue = FairQueue::new(usize::MAX);
    let mut held = Vec::new();
    // Ordinary batches of 150 kB, of one flow alone.
    for _ in 0..4 {
        assert!(queue.bypasses_queue(flow(1), long()));
        held.push(queue.permit(long()));
        held.last().unwrap().note_decoded(150_000);
    }
    assert!(!queue.bypasses_queue(flow(1), long()));
    assert!(queue.bypasses_queue(flow(1), plain(10)), "what is short");
    queue.permit(plain(10)).note_decoded(150_000);
    assert_eq!(queue.long_bytes.get(), 4 * 150_000);
}

/// Regression: bodies that decoded to megabytes and failed then were not counted.
#[tokio::test]
async fn a_long_request_counts_as_all_that_it_may_decode_to_until_that_is_known() {
    let queue = FairQueue::new(usize::MAX);
    let serving = Rc::clone(&queue).serve(|_| true, || std::future::ready(()));
    let mut serving = Box::pin(serving);
    assert!(futures_util::poll!(&mut serving).is_pending());
    drop(queue.permit(long()));
    assert_eq!(queue.long_bytes.get(), 512 << 10, "it failed");
    assert!(!queue.bypasses_queue(flow(1), long()));
    assert!(queue.bypasses_queue(flow(1), plain(10)), "what is short");
    let slow = queue.permit(long());
    for _ in 0..2 {
        assert!(futures_util::poll!(&mut serving).is_pending());
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.long_bytes.get(), 0, "the core has looked");
    let quick = queue.permit(long());
    quick.note_decoded(150_000);
    assert_eq!(queue.long_bytes.get(), 150_000);
    slow.note_decoded(400_000);
    assert_eq!(queue.long_bytes.get(), 150_000 + 400_000);
    assert!(!queue.bypasses_queue(flow(1), long()));
}

#[test]
fn long_requests_are_served_one_a_round() {
    let queue = FairQueue::new(usize::MAX);
    let push = |number| {
        let (grant, granted) = oneshot::channel();
        let cost = long();
        queue.push(Lane::Live, flow(number), QueuedRequest { cost, grant });
        granted
    };
    let mut waiting: Vec<_> = (0..24).map(|_| push(1)).collect();
    let mut other = push(2);
    for round in 1..=2 {
        assert!(queue.serve_round(&|_| true));
        waiting.retain_mut(|it| it.try_recv().is_err());
        let other = usize::from(other.try_recv().is_err());
        assert_eq!(waiting.len() + other, 25 - round, "one a round");
    }
    assert_eq!(waiting.len(), 23, "flows take turns");
}

#[tokio::test]
async fn long_requests_bypass_the_queue_again_once_the_core_has_looked_for_others() {
    let queue = FairQueue::new(usize::MAX);
    let serving = Rc::clone(&queue).serve(|_| true, || std::future::ready(()));
    let mut serving = Box::pin(serving);
    assert!(futures_util::poll!(&mut serving).is_pending());
    queue.permit(long()).note_decoded(512 << 10);
    assert!(!queue.bypasses_queue(flow(1), long()));
    // It has been woken, and lets the core look first.
    assert!(futures_util::poll!(&mut serving).is_pending());
    assert!(!queue.bypasses_queue(flow(1), long()));
    tokio::task::yield_now().await;
    assert!(futures_util::poll!(&mut serving).is_pending());
    assert!(queue.bypasses_queue(flow(1), long()));
}

#[tokio::test]
async fn a_small_flow_waits_for_one_turn_of_a_large_one() {
    let queue = FairQueue::new(usize::MAX);
    let large: Vec<_> = (0..100)
        .map(|_| push(&queue, Lane::Live, flow(1), 250_000))
        .collect();
    let mut small = push(&queue, Lane::Live, flow(2), 1_000);
    assert!(queue.serve_round(&|_| true));
    assert!(small.try_recv().is_ok());
    let served = large.into_iter().filter_map(|mut it| it.try_recv().ok());
    assert!(served.count() <= 2);
}

#[tokio::test]
async fn a_blocked_request_is_served_when_there_is_capacity_again() {
    let has_capacity_now = Rc::new(Cell::new(false));
    let queue = FairQueue::new(CAPACITY_BYTES);
    let (looked, has_capacity) = (Rc::clone(&has_capacity_now), Rc::clone(&has_capacity_now));
    let mut serving = Box::pin(Rc::clone(&queue).serve(
        move |_| has_capacity.get(),
        // There is capacity the second time that is asked.
        move || {
            looked.set(true);
            std::future::ready(())
        },
    ));
    let mut waiting = Box::pin(queue.acquire(Lane::Live, flow(1), plain(10), false));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert!(futures_util::poll!(&mut serving).is_pending());
    let permit = match futures_util::poll!(&mut waiting) {
        std::task::Poll::Ready(permit) => permit.unwrap(),
        std::task::Poll::Pending => panic!("it was not served"),
    };
    assert_eq!(queue.in_service.get(), 1);
    drop(permit);
    assert_eq!((queue.in_service.get(), queue.waiting_bytes()), (0, 0));
}

#[test]
fn a_client_that_went_away_gives_its_permit_back() {
    let queue = FairQueue::new(CAPACITY_BYTES);
    drop(push(&queue, Lane::Live, flow(1), 10));
    let mut here = push(&queue, Lane::Live, flow(2), 10);
    assert!(queue.serve_round(&|_| true));
    assert!(here.try_recv().is_ok());
    assert_eq!((queue.in_service.get(), queue.waiting_bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_ten_seconds_and_the_request_leaves_the_queue() {
    let queue = FairQueue::new(CAPACITY_BYTES);
    // The queue is not served.
    let permit = queue.acquire(Lane::Live, flow(1), plain(10), false).await;
    assert!(permit.is_none());
    let mut here = push(&queue, Lane::Live, flow(2), 10);
    assert!(queue.serve_round(&|_| true));
    assert!(here.try_recv().is_ok());
    assert_eq!((queue.in_service.get(), queue.waiting_bytes()), (0, 0));
}
