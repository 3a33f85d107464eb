//! Tests of the pool: one for each promise, and the queue for its threads against a model.

mod memory;

use super::threads::{FreeThreads, QueuePlace};
use super::*;
use crate::scheduling::flow::Flow;
use millrace_rows::Lane;
use proptest::prelude::*;

const KIB: usize = 1 << 10;

fn work(lane: Lane, flow: u64, bytes: usize) -> OffloadWork {
    OffloadWork {
        lane,
        flow: Flow(flow),
        bytes,
    }
}

fn free(all: usize, unknown: usize) -> FreeThreads {
    FreeThreads { all, unknown }
}

/// Work of a project, or of one that is not known.
fn of_project(is_known: bool) -> OffloadWork {
    work(Lane::Live, u64::from(is_known), 600 * KIB)
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_have_half_of_the_threads_and_a_wait_ends_after_eight_seconds() {
    let pool = Arc::new(OffloadPool::new(4, &HttpLimits::default()));
    let began = Instant::now();
    let acquire = |is_key_known| OffloadSlot::acquire(Arc::clone(&pool), of_project(is_key_known));
    let unknown_keys = [acquire(false).await.unwrap(), acquire(false).await.unwrap()];
    assert!(acquire(false).await.is_err(), "a third unknown key");
    assert_eq!(began.elapsed(), Duration::from_secs(8));
    // Known keys did not wait for them.
    let known = [acquire(true).await.unwrap(), acquire(true).await.unwrap()];
    assert_eq!(began.elapsed(), Duration::from_secs(8));
    assert!(acquire(true).await.is_err(), "more than there are threads");
    assert_eq!(began.elapsed(), Duration::from_secs(16));
    assert_eq!(pool.threads.state(), (free(0, 0), 0), "they have left");
    // A waiting request gets the first thread that comes free.
    let waits = tokio::spawn(OffloadSlot::acquire(Arc::clone(&pool), of_project(false)));
    tokio::time::sleep(Duration::from_secs(7)).await;
    drop(unknown_keys);
    assert!(waits.await.unwrap().is_ok());
    assert_eq!(began.elapsed(), Duration::from_secs(23));
    drop(known);
}

#[tokio::test]
async fn a_key_that_turns_out_to_be_known_gives_back_its_permit_for_unknown_keys() {
    let pool = Arc::new(OffloadPool::new(2, &HttpLimits::default()));
    let acquired = OffloadSlot::acquire(Arc::clone(&pool), of_project(false)).await;
    let mut offload = acquired.unwrap();
    assert_eq!(pool.threads.state(), (free(1, 0), 0));
    let mut waits = queued(&pool.threads, of_project(false));
    offload.mark_project_known();
    offload.mark_project_known();
    let next = waits.granted.try_recv().unwrap();
    assert_eq!(pool.threads.state(), (free(0, 0), 0), "both have a thread");
    drop(offload);
    assert_eq!(pool.threads.state(), (free(1, 0), 0));
    drop(next);
    assert_eq!(pool.threads.state(), (free(2, 1), 0));
}

/// Queues a request for which there is no thread.
fn queued(threads: &Arc<Threads>, work: OffloadWork) -> QueuePlace {
    threads.take_or_queue(work, None).unwrap_err()
}

fn running(threads: &Arc<Threads>, work: OffloadWork) -> ThreadPermit {
    threads.take_or_queue(work, None).unwrap()
}

/// Permits of the requests that got a thread since; the others go on waiting.
fn granted(places: &mut Vec<QueuePlace>) -> Vec<ThreadPermit> {
    let mut granted = Vec::new();
    places.retain_mut(|place| match place.granted.try_recv() {
        Ok(permit) => {
            granted.push(permit);
            false
        }
        Err(_) => true,
    });
    granted
}

/// Regression: the pool served large bodies in the order of their arrival, so that a project with
/// many connections kept another's batch waiting for more than 8 s.
#[test]
fn a_flow_with_a_hundred_requests_delays_another_by_at_most_one_per_thread() {
    let (small, large) = (600 * KIB, 4 << 10 << 10);
    for (workers, greedy_bytes, other_bytes) in [
        (1, small, small),
        (2, small, small),
        (4, small, small),
        (1, large, small),
        (2, large, small),
        (2, large, large),
    ] {
        let threads = Threads::new(workers);
        let greedy = work(Lane::Live, 1, greedy_bytes);
        let mut busy: Vec<_> = (0..workers).map(|_| running(&threads, greedy)).collect();
        let mut waiting: Vec<_> = (0..100).map(|_| queued(&threads, greedy)).collect();
        // It has been alone for long.
        for _ in 0..50 {
            drop(busy.remove(0));
            busy.extend(granted(&mut waiting));
        }
        let mut other = queued(&threads, work(Lane::Live, 2, other_bytes));
        let mut served_before = 0;
        loop {
            drop(busy.remove(0));
            if other.granted.try_recv().is_ok() {
                break;
            }
            served_before += 1;
            busy.extend(granted(&mut waiting));
        }
        let what = format!("{workers} threads, {greedy_bytes} and {other_bytes} bytes");
        assert!(served_before <= workers, "{served_before}: {what}");
    }
}

#[test]
fn historical_requests_get_a_fifth_while_live_ones_wait() {
    let threads = Threads::new(1);
    let mut busy = vec![running(&threads, of_project(true))];
    let lanes = [Lane::Live, Lane::Historical];
    let mut waiting = lanes.map(|lane| {
        let queued = |flow: u64| queued(&threads, work(lane, flow % 3 + 1, 600 * KIB));
        (0..300).map(queued).collect::<Vec<_>>()
    });
    for _ in 0..100 {
        drop(busy.pop());
        busy.extend(waiting.iter_mut().flat_map(granted));
    }
    assert_eq!(waiting.each_ref().map(Vec::len), [300 - 80, 300 - 20]);
    // Alone they have all threads.
    waiting[0].clear();
    for _ in 0..100 {
        drop(busy.pop());
        busy.extend(waiting.iter_mut().flat_map(granted));
    }
    assert_eq!(waiting.each_ref().map(Vec::len), [0, 300 - 120]);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_decode_to_more_than_it_said_waits_for_another_turn() {
    let pool = Arc::new(OffloadPool::new(1, &HttpLimits::default()));
    let [small, large] = [64 * KIB, 64 << 20].map(|bytes| work(Lane::Live, 1, bytes));
    let slot = OffloadSlot::acquire(Arc::clone(&pool), small)
        .await
        .unwrap();
    let mut other = queued(&pool.threads, work(Lane::Live, 2, 600 * KIB));
    let slot = slot.grow_to(small).await.unwrap();
    assert!(
        other.granted.try_recv().is_err(),
        "it is as large as it said"
    );
    let began = Instant::now();
    let grown = tokio::spawn(slot.grow_to(large));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let other = other.granted.try_recv().unwrap();
    assert_eq!(pool.threads.state(), (free(0, 1), 1));
    drop(other);
    let slot = grown.await.unwrap().unwrap();
    // It has as much time as any, whatever it says.
    let _other = queued(&pool.threads, work(Lane::Live, 2, 600 * KIB));
    let larger = work(Lane::Live, 1, 65 << 20);
    assert!(slot.grow_to(larger).await.is_err());
    assert_eq!(began.elapsed(), Duration::from_secs(8));
}

#[tokio::test(start_paused = true)]
async fn a_grown_request_goes_before_later_ones_of_its_project() {
    let pool = Arc::new(OffloadPool::new(1, &HttpLimits::default()));
    let of_flow = |flow| work(Lane::Live, flow, 64 * KIB);
    let first = OffloadSlot::acquire(Arc::clone(&pool), of_flow(1));
    let slot = first.await.unwrap();
    let mut later = queued(&pool.threads, of_flow(1));
    let slot = slot.grow_to(work(Lane::Live, 1, 65 * KIB)).await.unwrap();
    assert!(later.granted.try_recv().is_err(), "it keeps its thread");
    let mut other = queued(&pool.threads, of_flow(2));
    let grown = tokio::spawn(slot.grow_to(work(Lane::Live, 1, 66 * KIB)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut served = Vec::new();
    for place in [&mut later, &mut other] {
        served.push(place.granted.try_recv().is_ok());
    }
    assert_eq!(served, [false, true]);
    assert!(grown.await.unwrap().is_ok());
}

#[test]
fn a_live_request_that_comes_alone_goes_before_historical_ones_that_wait() {
    let threads = Threads::new(1);
    let of = |lane| work(lane, 1, 600 * KIB);
    let mut busy = vec![running(&threads, of(Lane::Historical))];
    let queue = |lane| queued(&threads, of(lane));
    let mut historical: Vec<_> = (0..10).map(|_| queue(Lane::Historical)).collect();
    for _ in 0..3 {
        let mut live = vec![queue(Lane::Live)];
        drop(busy.pop());
        busy.extend(granted(&mut live));
        assert_eq!(busy.len(), 1);
        drop(busy.pop());
        busy.extend(granted(&mut historical));
        assert_eq!(busy.len(), 1);
    }
}

#[test]
fn a_request_that_is_cancelled_with_its_permit_underway_leaves_it_to_the_next() {
    let threads = Threads::new(1);
    let busy = running(&threads, of_project(false));
    let [first, mut second] = [1, 2].map(|flow| queued(&threads, work(Lane::Live, flow, 1)));
    drop(busy);
    assert_eq!(threads.state(), (free(0, 1), 1), "the first has it");
    drop(first);
    drop(second.granted.try_recv().unwrap());
    assert_eq!(threads.state(), (free(1, 1), 0));
}

/// Step of the model test.
#[derive(Clone, Debug)]
enum Step {
    /// A request comes; flow 0 is that of unknown projects.
    Come {
        flow: u64,
        historical: bool,
        bytes: usize,
    },
    /// One that waits, or has its permit underway, goes away.
    Leave(usize),
    /// One that has a thread ends.
    End(usize),
    /// One that has a thread turns out to be of a known project.
    MarkKnown(usize),
    /// Permits that are underway arrive.
    Receive,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let come = (0..4_u64, any::<bool>(), 1..3_000_000_usize);
    let come = come.prop_map(|(flow, historical, bytes)| Step::Come {
        flow,
        historical,
        bytes,
    });
    let step = prop_oneof![
        4 => come,
        1 => any::<usize>().prop_map(Step::Leave),
        2 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::MarkKnown),
        2 => Just(Step::Receive),
    ];
    prop::collection::vec(step, 1..200)
}

/// Requests of the model, each with true as long as it counts among the unknown ones.
#[derive(Default)]
struct Model {
    running: Vec<(ThreadPermit, bool)>,
    places: Vec<(QueuePlace, OffloadWork)>,
}

impl Model {
    fn step(&mut self, threads: &Arc<Threads>, step: &Step) {
        match *step {
            Step::Come {
                flow,
                historical,
                bytes,
            } => {
                let lane = [Lane::Live, Lane::Historical][usize::from(historical)];
                let work = work(lane, flow, bytes);
                match threads.take_or_queue(work, None) {
                    Ok(permit) => self.running.push((permit, flow == 0)),
                    Err(place) => self.places.push((place, work)),
                }
            }
            Step::Leave(index) if !self.places.is_empty() => {
                drop(self.places.remove(index % self.places.len()));
            }
            Step::End(index) if !self.running.is_empty() => {
                drop(self.running.swap_remove(index % self.running.len()));
            }
            Step::MarkKnown(index) if !self.running.is_empty() => {
                let index = index % self.running.len();
                self.running[index].0.mark_project_known();
                self.running[index].1 = false;
            }
            Step::Receive => self.receive(),
            Step::Leave(_) | Step::End(_) | Step::MarkKnown(_) => {}
        }
    }

    /// Receives permits. Requests of one flow are served in their order.
    fn receive(&mut self) {
        let mut still: Vec<(Lane, Flow)> = Vec::new();
        let running = &mut self.running;
        self.places.retain_mut(|(place, work)| {
            let name = (work.lane, work.flow);
            let Ok(permit) = place.granted.try_recv() else {
                still.push(name);
                return true;
            };
            assert!(!still.contains(&name));
            running.push((permit, !work.flow.is_known()));
            false
        });
    }

    /// Checks that no thread is lost, and that none is free for a request that waits, once all
    /// permits have arrived.
    fn check(&self, threads: &Arc<Threads>, all: FreeThreads) {
        let unknown = self.running.iter().filter(|(_, is_unknown)| *is_unknown);
        let left = free(all.all - self.running.len(), all.unknown - unknown.count());
        assert_eq!(threads.state(), (left, self.places.len()));
        let mut waiting = self.places.iter();
        let may_start = |flow: Flow| left.all > 0 && (flow.is_known() || left.unknown > 0);
        assert!(!waiting.any(|(_, work)| may_start(work.flow)));
    }
}

proptest! {
    #[test]
    fn requests_that_come_and_go_lose_no_thread_and_leave_none_idle(
        workers in 1..6_usize,
        steps in steps(),
    ) {
        let threads = Threads::new(workers);
        let all = free(workers, (workers / 2).max(1));
        let mut model = Model::default();
        for step in steps {
            model.step(&threads, &step);
            // Threads whose permits are underway are neither free nor waited for.
            let (left, waiting) = threads.state();
            let underway = model.places.len() - waiting;
            prop_assert_eq!(left.all + model.running.len() + underway, workers);
            if matches!(step, Step::Receive) {
                model.check(&threads, all);
            }
        }
        model.receive();
        model.check(&threads, all);
        drop(model);
        prop_assert_eq!(threads.state(), (all, 0));
    }
}
