//! Turns against a model, and what they promise.

use super::waiting::QUANTUM_BYTES;
use super::*;
use proptest::prelude::*;

const ROOM: usize = 4 << 20;
const LANES: [Lane; 2] = [Lane::Live, Lane::Historical];

fn flow(number: u8) -> Flow {
    Flow(u64::from(number) + 1)
}

/// Queues a request and gives what will be told when it may go.
fn push(turns: &Turns, lane: Lane, flow: Flow, bytes: usize) -> oneshot::Receiver<Turn> {
    let (go, gone) = oneshot::channel();
    turns.push(lane, flow, Request { bytes, go });
    gone
}

#[derive(Clone, Debug)]
enum Step {
    /// A request comes; it queues up if it is let in.
    Come {
        flow: u8,
        historical: bool,
        bytes: usize,
    },
    /// One round, with room in the lanes that say so.
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
    let round = (any::<bool>(), any::<bool>())
        .prop_map(|(live, historical)| Step::Round { live, historical });
    let step = prop_oneof![2 => come, 1 => round];
    prop::collection::vec(step, 1..200)
}

/// A request of the model.
struct Waits {
    lane: Lane,
    flow: Flow,
    bytes: usize,
    gone: oneshot::Receiver<Turn>,
}

/// What is to be done with a request, by the table at the head of the module.
fn verdict(waiting: &[Waits], lane: Lane, flow: Flow, bytes: usize) -> Result<(), Shed> {
    let all: usize = waiting.iter().map(|it| it.bytes).sum();
    let own = |it: &&Waits| (it.lane, it.flow) == (lane, flow);
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
        _ if all + bytes > ROOM => Err(Shed::All),
        _ if all + bytes <= ROOM / 2 => Ok(()),
        _ if lane == Lane::Historical => Err(Shed::Historical),
        _ if held > 0 && held + bytes > ROOM / 2 / flows.len() => Err(Shed::Flow),
        _ => Ok(()),
    }
}

proptest! {
    #[test]
    fn everyone_who_is_let_in_is_served_once_and_in_order(steps in steps()) {
        let turns = Turns::new(ROOM);
        let mut model: Vec<Waits> = Vec::new();
        for step in steps {
            match step {
                Step::Come { flow: number, historical, bytes } => {
                    let (lane, flow) = (LANES[usize::from(historical)], flow(number));
                    let admitted = turns.admit(lane, Some(flow), bytes);
                    prop_assert_eq!(admitted, verdict(&model, lane, flow, bytes));
                    if admitted.is_ok() {
                        let gone = push(&turns, lane, flow, bytes);
                        model.push(Waits { lane, flow, bytes, gone });
                    }
                }
                Step::Round { live, historical } => {
                    let has_room = |lane| if lane == Lane::Live { live } else { historical };
                    let served = turns.round(&has_room);
                    let could = model.iter().any(|it| has_room(it.lane));
                    prop_assert_eq!(served, could, "somebody is served if anybody can be");
                    let mut still: Vec<(Lane, Flow)> = Vec::new();
                    model.retain_mut(|it| {
                        let gone = it.gone.try_recv().is_ok();
                        // Of one flow, the first come go first.
                        assert!(!gone || (has_room(it.lane) && !still.contains(&(it.lane, it.flow))));
                        if !gone {
                            still.push((it.lane, it.flow));
                        }
                        !gone
                    });
                }
            }
            let all: usize = model.iter().map(|it| it.bytes).sum();
            prop_assert_eq!(turns.waiting_bytes(), all);
            prop_assert!(turns.waiting_bytes() <= ROOM.max(700_000));
        }
    }

    #[test]
    fn flows_that_all_wait_are_served_alike(
        sizes in prop::collection::hash_set(5_000..300_000_usize, 2..6),
        served in 50..200_usize,
    ) {
        let sizes = Vec::from_iter(sizes);
        let turns = Turns::new(usize::MAX);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let mut bytes = vec![0; sizes.len()];
        // Each has more in the queue than it can be served.
        for (number, size) in sizes.iter().enumerate() {
            let flow = flow(u8::try_from(number).unwrap());
            for _ in 0..=served * largest / size {
                drop(push(&turns, Lane::Live, flow, *size));
            }
        }
        for _ in 0..served {
            let request = turns.waiting.borrow_mut().next(&|_| true).unwrap();
            bytes[sizes.iter().position(|size| *size == request.bytes).unwrap()] += request.bytes;
        }
        let most = bytes.iter().max().unwrap();
        let least = bytes.iter().min().unwrap();
        prop_assert!(most - least <= 2 * (largest + QUANTUM_BYTES), "{bytes:?} of {sizes:?}");
    }
}

#[test]
fn historical_requests_go_first_then_the_largest_flow_then_all() {
    let turns = Turns::new(1_000);
    let mut waiting = Vec::new();
    // How many bytes wait, and who may still queue up with 50 bytes: one that has 400 waiting, one
    // that has none, one whose flow is not known, and a historical one.
    let table = [
        (400, [true, true, true, true]),
        (460, [false, true, true, false]),
        (900, [false, true, true, false]),
        (951, [false, false, false, false]),
    ];
    waiting.push(push(&turns, Lane::Live, flow(1), 400));
    for (bytes, expected) in table {
        let more = bytes - turns.waiting_bytes();
        waiting.push(push(&turns, Lane::Live, flow(2), more));
        let admits = |lane, flow| turns.admit(lane, flow, 50).is_ok();
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
fn who_holds_nothing_is_let_in_however_many_others_wait() {
    let turns = Turns::new(1_000);
    let _waiting: Vec<_> = (0..10)
        .map(|number| push(&turns, Lane::Live, flow(number), 30))
        .collect();
    let admitted = |flow| turns.admit(Lane::Live, Some(flow), 250);
    assert_eq!(admitted(flow(10)), Ok(()));
    assert_eq!(admitted(flow(0)), Err(Shed::Flow));
    let unknown = push(&turns, Lane::Live, Flow::UNKNOWN, 60);
    assert_eq!(admitted(Flow::UNKNOWN), Ok(()), "many projects' share");
    let more = push(&turns, Lane::Live, Flow::UNKNOWN, 341);
    assert_eq!(admitted(Flow::UNKNOWN), Err(Shed::Flow));
    drop((unknown, more));
}

#[test]
fn one_flow_alone_never_queues() {
    let turns = Turns::new(ROOM);
    let held: Vec<_> = (0..100)
        .map(|_| {
            assert!(turns.passes(flow(1)));
            turns.turn()
        })
        .collect();
    assert!(!turns.passes(flow(2)), "the core is busy");
    assert!(!turns.passes(flow(1)), "now it is not alone");
    drop(held);
    assert!(turns.passes(flow(2)), "the core is idle");
}

#[tokio::test]
async fn a_small_one_waits_for_one_turn_of_a_large_one() {
    let turns = Turns::new(usize::MAX);
    let large: Vec<_> = (0..100)
        .map(|_| push(&turns, Lane::Live, flow(1), 250_000))
        .collect();
    let mut small = push(&turns, Lane::Live, flow(2), 1_000);
    assert!(turns.round(&|_| true));
    assert!(small.try_recv().is_ok());
    let served = large.into_iter().filter_map(|mut it| it.try_recv().ok());
    assert!(served.count() <= 2);
}

#[tokio::test]
async fn whoever_is_held_up_is_served_when_there_is_room_again() {
    let room = Rc::new(Cell::new(false));
    let turns = Turns::new(ROOM);
    let (looked, has_room) = (Rc::clone(&room), Rc::clone(&room));
    let mut serving = Box::pin(Rc::clone(&turns).serve(
        move |_| has_room.get(),
        // There is room the second time that is asked.
        move || {
            looked.set(true);
            std::future::ready(())
        },
    ));
    let mut waiting = Box::pin(turns.wait(Lane::Live, flow(1), 10, false));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    assert!(futures_util::poll!(&mut serving).is_pending());
    let turn = match futures_util::poll!(&mut waiting) {
        std::task::Poll::Ready(turn) => turn.unwrap(),
        std::task::Poll::Pending => panic!("it was not served"),
    };
    assert_eq!(turns.inside.get(), 1);
    drop(turn);
    assert_eq!((turns.inside.get(), turns.waiting_bytes()), (0, 0));
}

#[test]
fn whoever_has_gone_away_gives_its_turn_back() {
    let turns = Turns::new(ROOM);
    drop(push(&turns, Lane::Live, flow(1), 10));
    let mut here = push(&turns, Lane::Live, flow(2), 10);
    assert!(turns.round(&|_| true));
    assert!(here.try_recv().is_ok());
    assert_eq!((turns.inside.get(), turns.waiting_bytes()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_without_end_and_what_is_given_up_is_let_go() {
    let turns = Turns::new(ROOM);
    // Nobody serves.
    let turn = turns.wait(Lane::Live, flow(1), 10, false).await;
    assert!(turn.is_none());
    let mut here = push(&turns, Lane::Live, flow(2), 10);
    assert!(turns.round(&|_| true));
    assert!(here.try_recv().is_ok());
    assert_eq!((turns.inside.get(), turns.waiting_bytes()), (0, 0));
}
